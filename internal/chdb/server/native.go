package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// translate turns blocks of the Native format, which the library writes at
// revision 0, into the revision that the client asks for, block after block,
// compressed if the client wants that.
func translate(answer []byte, parameters url.Values) ([]byte, error) {
	revision, err := strconv.ParseUint(parameters.Get("client_protocol_version"), 10, 64)
	if err != nil || revision == 0 {
		return answer, nil
	}
	var out bytes.Buffer
	compressor := compress.NewWriter(0, compress.LZ4)
	reader := chproto.NewReader(bytes.NewReader(answer))
	for {
		block := proto.Block{ServerContext: &column.ServerContext{Timezone: time.UTC}}
		if err := block.Decode(reader, 0); err != nil {
			if errors.Is(err, io.EOF) {
				return out.Bytes(), nil
			}
			return nil, fmt.Errorf("decode the library's block: %w", err)
		}
		var encoded chproto.Buffer
		if err := block.Encode(&encoded, revision); err != nil {
			return nil, fmt.Errorf("encode block for the client: %w", err)
		}
		if parameters.Get("compress") != "1" {
			out.Write(encoded.Buf)
			continue
		}
		if err := compressor.Compress(encoded.Buf); err != nil {
			return nil, fmt.Errorf("compress block for the client: %w", err)
		}
		out.Write(compressor.Data)
	}
}

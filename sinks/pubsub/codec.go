package pubsub

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one is made of
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is gRPC's own, but for the memory that requests are encoded into. The
// library's pool has a megabyte for what does not fit into 32 kB, and as many
// megabytes for as many requests under way.
type codec struct {
	encoding.CodecV2
	memory mem.BufferPool
}

func newCodec() codec {
	return codec{
		CodecV2: encoding.GetCodecV2("proto"),
		memory:  mem.NewTieredBufferPool(1<<10, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20),
	}
}

// Marshal encodes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: no protocol buffer", v)
	}
	buffer := c.memory.Get(proto.Size(m))
	encoded, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buffer)[:0], m)
	if err != nil {
		c.memory.Put(buffer)
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	*buffer = encoded
	return mem.BufferSlice{mem.NewBuffer(buffer, c.memory)}, nil
}

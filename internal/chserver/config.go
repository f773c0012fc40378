package chserver

import (
	"fmt"
	"os"
	"path/filepath"
)

// User and Password are an account beside "default", which has no password.
const (
	User     = "exporter"
	Password = "correct-horse"
)

// configuration is config.xml: one TCP port on 127.0.0.1, and an HTTP port,
// without which the server does not start.
const configuration = `<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>%[1]s/server.log</log><errorlog>%[1]s/error.log</errorlog></logger>
  <tcp_port>%[2]d</tcp_port>
  <http_port>%[3]d</http_port>
  <listen_host>127.0.0.1</listen_host>
  <path>%[1]s/data/</path>
  <tmp_path>%[1]s/tmp/</tmp_path>
  <users_config>%[1]s/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size>
  <timezone>UTC</timezone>
</yandex>
`

const accounts = `<?xml version="1.0"?>
<yandex>
  <profiles><default><max_memory_usage>%[3]d</max_memory_usage></default></profiles>
  <quotas><default></default></quotas>
  <users>
    <default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default>
    <%[1]s><password>%[2]s</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></%[1]s>
  </users>
</yandex>
`

// maxMemory bounds one statement of the server, in bytes.
const maxMemory = 2 << 30

func (s *Server) configure(httpPort int) error {
	files := map[string]string{
		"config.xml": fmt.Sprintf(configuration, s.dir, s.port, httpPort),
		"users.xml":  fmt.Sprintf(accounts, User, Password, maxMemory),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write ClickHouse's %s: %w", name, err)
		}
	}
	for _, name := range []string{"data", "tmp"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			return fmt.Errorf("make ClickHouse's directory %s: %w", name, err)
		}
	}
	return nil
}

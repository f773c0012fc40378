package main

import (
	"net"

	"github.com/prometheus/exporter-toolkit/web"
)

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	_, err = net.LookupPort("tcp", port)
	return err
}

func checkWebConfig(path string) error { return web.Validate(path) }

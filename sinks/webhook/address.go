package webhook

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// addressError says that an address may not be dialled.
type addressError struct {
	addr     netip.Addr
	metadata bool // of a metadata service
}

func (e *addressError) Error() string {
	if e.metadata {
		return fmt.Sprintf("address %s is that of a metadata service, which is never dialled", e.addr)
	}
	return fmt.Sprintf("address %s is not public: allow its network with …_WEBHOOK_ALLOW_PRIVATE if it is meant", e.addr)
}

// permit returns an *addressError unless the address may be dialled: it is
// public, or in an allowed network. An IPv4 address within an IPv6 one counts
// too, since a gateway may lead there.
func permit(addr netip.Addr, allowed []netip.Prefix) error {
	addr = addr.WithZone("").Unmap()
	inner, carries := embedded(addr)
	if slices.Contains(metadataAddresses, addr) || carries && slices.Contains(metadataAddresses, inner) {
		return &addressError{addr: addr, metadata: true}
	}
	if within(addr, allowed) || public(addr) && (!carries || public(inner) || within(inner, allowed)) {
		return nil
	}
	return &addressError{addr: addr}
}

func within(addr netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// public reports whether the address is one that the Internet routes.
func public(addr netip.Addr) bool {
	if addr.Is4() {
		return !within(addr, special4)
	}
	return within(addr, global6) && !within(addr, special6)
}

// embedded returns the IPv4 address that an IPv6 address carries: NAT64
// (RFC 6052, RFC 8215), 6to4 (RFC 3056), Teredo (RFC 4380), ISATAP (RFC 5214),
// and the IPv4-compatible and IPv4-translated forms.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case within(addr, lastFour), b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP with any prefix
		return last, true
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0:
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

// metadataName reports whether a host is a cloud's metadata service by name.
func metadataName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return slices.Contains([]string{
		"metadata", "metadata.google.internal", "metadata.goog",
		"instance-data", "instance-data.ec2.internal", "metadata.azure.internal", "metadata.platformequinix.com",
	}, host)
}

// The lists below are of the IANA special-purpose registries (RFC 6890) and of
// the clouds' documentation.
var (
	metadataAddresses = addresses(
		"169.254.169.254",               // AWS, Google, Azure, Oracle, DigitalOcean and others
		"169.254.170.2",                 // AWS ECS credentials
		"169.254.170.23",                // AWS EKS pod identity
		"169.254.169.253",               // AWS resolver
		"169.254.0.23",                  // Tencent
		"169.254.42.42",                 // Scaleway
		"100.100.100.200",               // Alibaba
		"168.63.129.16",                 // Azure platform
		"192.0.0.192",                   // Oracle
		"fd00:ec2::254",                 // AWS
		"fd00:ec2::23", "fd00:ec2::253", // AWS EKS, resolver
		"fd20:ce::254", // Google
		"fd00:42::42",  // Scaleway
	)
	special4 = networks("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	global6  = networks("2000::/3", "64:ff9b::/96")
	special6 = networks("2001:2::/48", "2001:10::/28", "2001:20::/28", "2001:db8::/32", "3fff::/20")
	lastFour = networks("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")
)

func addresses(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func networks(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

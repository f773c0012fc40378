package etf

// keyStack holds the keys of the maps that are open. The first ones are stored
// in place, so that the usual event needs no allocation.
type keyStack struct {
	fixed [16]key
	spill []key // takes over from fixed for good
	n     int
}

func (k *keyStack) push(one key) {
	switch {
	case k.spill != nil:
		k.spill = append(k.spill[:k.n], one)
	case k.n < len(k.fixed):
		k.fixed[k.n] = one
	default:
		k.spill = append(make([]key, 0, 4*len(k.fixed)), k.fixed[:]...)
		k.spill = append(k.spill, one)
	}
	k.n++
}

// from returns the keys from base on; the slice holds until the next push.
func (k *keyStack) from(base int) []key {
	if k.spill != nil {
		return k.spill[base:k.n]
	}
	return k.fixed[base:k.n]
}

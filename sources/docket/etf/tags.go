package etf

import "strconv"

// Tags of the external term format.
const (
	formatVersion = 131

	tagNewFloat      = 70
	tagBitBinary     = 77
	tagCompressed    = 80
	tagSmallInteger  = 97
	tagInteger       = 98
	tagFloat         = 99
	tagAtom          = 100
	tagSmallTuple    = 104
	tagLargeTuple    = 105
	tagNil           = 106
	tagString        = 107
	tagList          = 108
	tagBinary        = 109
	tagSmallBig      = 110
	tagLargeBig      = 111
	tagSmallAtom     = 115
	tagMap           = 116
	tagAtomUTF8      = 118
	tagSmallAtomUTF8 = 119
)

// foreign says why a tag cannot start a durable term.
func foreign(tag byte) string {
	switch tag {
	case 88, 103:
		return "processes are not durable"
	case 89, 102, 120:
		return "ports are not durable"
	case 90, 101, 114:
		return "references are not durable"
	case 112, 113, 117:
		return "functions are not durable"
	case tagBitBinary:
		return "bit strings are not durable"
	case tagCompressed:
		return "compressed terms are not accepted"
	}
	return "unknown term tag " + strconv.Itoa(int(tag))
}

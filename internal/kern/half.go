package kern

import "math"

// FromHalf converts float16 bits to float32. dst and src have the same length.
func FromHalf(dst []float32, src []uint16) {
	dst = dst[:len(src)]
	whole := len(src) - len(src)%lanes()
	fromHalf(dst[:whole], src[:whole])
	fromHalfGo(dst[whole:], src[whole:])
}

// ToHalf converts float32 to float16 bits, to nearest, ties to even. What is too large becomes
// infinite. dst and src have the same length.
func ToHalf(dst []uint16, src []float32) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = floatToHalf(x)
	}
}

func halfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exponent == 0x1f: // infinite or NaN; the hardware sets the quiet bit
		if fraction != 0 {
			fraction |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	case exponent == 0: // zero or subnormal: fraction·2⁻²⁴, exact in float32
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

func floatToHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits>>16) & 0x8000
	bits &= 0x7fffffff
	switch {
	case bits > 0x7f800000:
		return sign | 0x7e00 // NaN
	case bits >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case bits < 0x38800000: // below the smallest normal: count in units of 2⁻²⁴
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(bits))*0x1p24))
	}
	bits -= 112 << 23
	return sign | uint16((bits+0xfff+(bits>>13&1))>>13)
}

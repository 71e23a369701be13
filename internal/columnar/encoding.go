package columnar

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// slack is how many values a page may hold beyond those that it claims: writers fill up their last group.
const slack = 1 << 10

// runs walks over values of a width in bits as Parquet's hybrid of runs and packed bits has them, and finds more than
// there may be: the library makes room for what runs claim.
func runs(r *bufio.Reader, width uint, values int64) error {
	for total := int64(0); ; {
		head, err := binary.ReadUvarint(r)
		if err != nil {
			return unlessEnd(err)
		}
		count, bytes := head>>1, uint64(width+7)/8
		if head&1 == 1 {
			count, bytes = 8*count, count*uint64(width)
		}
		if head > math.MaxUint32 || total+int64(count) > values+slack {
			return fmt.Errorf("%w: a run of %d values in a page of %d", ErrExpands, count, values)
		}
		total += int64(count)
		if _, err := r.Discard(int(bytes)); err != nil {
			return unlessEnd(err)
		}
	}
}

// deltas walks over whole numbers in Parquet's encoding of differences. It returns the sum of those above zero.
//
//	block size │ miniblocks per block │ numbers │ first number │ blocks
//	block: least difference │ width of each miniblock in bits │ miniblocks
func deltas(r *bufio.Reader, values int64) (sum int64, err error) {
	var head [3]uint64
	for k := range head {
		if head[k], err = binary.ReadUvarint(r); err != nil {
			return 0, unlessEnd(err)
		}
	}
	size, count, total := head[0], head[1], head[2]
	if size > 1<<16 || count < 1 || count > size || size%count != 0 {
		return 0, fmt.Errorf("blocks of %d differences in %d parts", size, count)
	}
	if total > math.MaxInt32 || int64(total) > values+slack {
		return 0, fmt.Errorf("%w: %d differences in a page of %d values", ErrExpands, total, values)
	}
	last, err := binary.ReadVarint(r)
	if err != nil || total == 0 {
		return 0, unlessEnd(err)
	}
	sum = max(last, 0)
	widths, packed := make([]byte, count), make([]byte, 0, size)
	for left := total - 1; left > 0; {
		least, err := binary.ReadVarint(r)
		if err != nil {
			return sum, unlessEnd(err)
		}
		if _, err := io.ReadFull(r, widths); err != nil {
			return sum, unlessEnd(err)
		}
		for _, width := range widths {
			if left == 0 {
				break // the library reads no further
			}
			if width > 64 {
				return sum, fmt.Errorf("differences of %d bits", width)
			}
			packed = append(packed[:0], make([]byte, int(size/count)*int(width)/8)...)
			if _, err := io.ReadFull(r, packed); err != nil {
				return sum, unlessEnd(err)
			}
			for k := range min(size/count, left) {
				last += least + int64(bitsAt(packed, k*uint64(width), uint(width)))
				sum += max(last, 0)
				if sum > math.MaxInt32 || sum < 0 {
					sum = math.MaxInt32 // as good as any number that is too large
				}
				left--
			}
		}
	}
	return sum, nil
}

// bitsAt reads a number of a width from a place, both in bits, the lowest first.
func bitsAt(packed []byte, at uint64, width uint) (x uint64) {
	for k := uint(0); k < width; {
		index, from := (at+uint64(k))/8, uint(at+uint64(k))%8
		if index >= uint64(len(packed)) {
			return x
		}
		take := min(8-from, width-k)
		x |= uint64(packed[index]>>from&(1<<take-1)) << k
		k += take
	}
	return x
}

// unlessEnd leaves it to Scan to say that a page ends early.
func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

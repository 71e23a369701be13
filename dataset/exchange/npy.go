package exchange

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// npyRoom is the size of every header that npyHeader makes, so that rows begin on a cache line.
const npyRoom = 128

// npyHeader is the header of an .npy file, padded to npyRoom.
func npyHeader(kind string, shape ...int) ([]byte, error) {
	var sizes strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&sizes, "%d, ", n)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind,
		strings.TrimSuffix(sizes.String(), " "))
	room := npyRoom - 10 - 1
	if len(text) > room {
		return nil, fmt.Errorf("the header of an .npy file is too long: %s", text)
	}
	text += strings.Repeat(" ", room-len(text)) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text))), text...), nil
}

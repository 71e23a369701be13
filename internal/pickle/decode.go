package pickle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrFormat is wrapped by every error about bytes that are not a pickle this package reads.
var ErrFormat = errors.New("not a readable pickle")

// Error says where reading stopped.
type Error struct {
	Offset int64  // of the instruction, in bytes from the start
	Op     string // its name in Python's pickletools
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("byte %d, instruction %s: %v", e.Offset, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Limits bound what a pickle may ask for. Zero means the default.
type Limits struct {
	Stack int // values waiting, by default 16 million
	Memo  int // values remembered, by default 256 million
	Depth int // containers within containers, by default 1000
}

func (l Limits) withDefaults() Limits {
	if l.Stack <= 0 {
		l.Stack = 16 << 20
	}
	if l.Memo <= 0 {
		l.Memo = 256 << 20
	}
	if l.Depth <= 0 {
		l.Depth = 1000
	}
	return l
}

// Decode reads the pickle at the start of data and returns its value and its length in bytes. Values of type
// []byte and *Array are parts of data, which must live and stay unchanged as long as they do.
func Decode(data []byte, l Limits) (value any, n int, err error) {
	m := machine{data: data, limits: l.withDefaults()}
	for {
		at := m.at
		op, err := m.byte()
		if err == nil {
			if op == '.' {
				v, err := m.pop()
				if err == nil {
					return v, m.at, nil
				}
				return nil, at, &Error{Offset: int64(at), Op: "STOP", Err: err}
			}
			err = m.step(op)
		}
		if err != nil {
			name := opName(op)
			if m.at == at {
				name = "none"
			}
			return nil, at, &Error{Offset: int64(at), Op: name, Err: err}
		}
	}
}

type machine struct {
	data   []byte
	at     int
	stack  []any
	marks  []int // where in stack the marks are
	memo   []any
	sparse map[int]any // what was remembered out of order
	limits Limits
	copied int // values that calls have copied
}

func wrongf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFormat}, args...)...)
}

func (m *machine) byte() (byte, error) {
	if m.at >= len(m.data) {
		return 0, wrongf("it ends before its STOP; was it cut off?")
	}
	m.at++
	return m.data[m.at-1], nil
}

// take returns the next n bytes without copying them.
func (m *machine) take(n uint64) ([]byte, error) {
	if left := uint64(len(m.data) - m.at); n > left {
		return nil, wrongf("it announces %d bytes and %d are left; was it cut off?", n, left)
	}
	part := m.data[m.at : m.at+int(n) : m.at+int(n)]
	m.at += int(n)
	return part, nil
}

// sized reads a length of width bytes, and that many bytes.
func (m *machine) sized(width int) ([]byte, error) {
	n, err := m.uint(width)
	if err != nil {
		return nil, err
	}
	return m.take(n)
}

func (m *machine) uint(width int) (uint64, error) {
	b, err := m.take(uint64(width))
	if err != nil {
		return 0, err
	}
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:]), nil
}

func (m *machine) line() (string, error) {
	end := bytes.IndexByte(m.data[m.at:], '\n')
	if end < 0 {
		return "", wrongf("it ends within a line")
	}
	line := m.data[m.at : m.at+end]
	m.at += end + 1
	return strings.TrimSuffix(string(line), "\r"), nil
}

func (m *machine) push(v any) error {
	if len(m.stack) >= m.limits.Stack {
		return wrongf("more than %d values wait on the stack", m.limits.Stack)
	}
	m.stack = append(m.stack, v)
	return nil
}

func (m *machine) top() (any, error) {
	if len(m.stack) == 0 || len(m.marks) > 0 && m.marks[len(m.marks)-1] == len(m.stack) {
		return nil, wrongf("it takes a value and there is none")
	}
	return m.stack[len(m.stack)-1], nil
}

func (m *machine) pop() (any, error) {
	v, err := m.top()
	if err == nil {
		m.stack[len(m.stack)-1] = nil
		m.stack = m.stack[:len(m.stack)-1]
	}
	return v, err
}

// popMark returns the values above the last mark. They are on the stack and must be copied.
func (m *machine) popMark() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, wrongf("it goes back to a mark and there is none")
	}
	from := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	items := m.stack[from:]
	m.stack = m.stack[:from]
	return items, nil
}

func (m *machine) remember(index int) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	switch {
	case index < 0 || index >= m.limits.Memo:
		return wrongf("it remembers a value as number %d, and the limit is %d", index, m.limits.Memo)
	case index < len(m.memo):
		m.memo[index] = v
	case index == len(m.memo):
		m.memo = append(m.memo, v)
	case index == 1 && len(m.memo) == 0: // Python 2 counts from 1
		m.memo = append(m.memo, nil, v)
	default:
		if m.sparse == nil {
			m.sparse = map[int]any{}
		}
		m.sparse[index] = v
	}
	return nil
}

func (m *machine) recall(index int) error {
	if v, found := m.sparse[index]; found {
		return m.push(v)
	}
	if index < 0 || index >= len(m.memo) {
		return wrongf("it recalls value number %d, which it never remembered", index)
	}
	return m.push(m.memo[index])
}

// deeper returns the depth of a container of depth own once the values are in it.
func (m *machine) deeper(own int32, values ...any) (int32, error) {
	for _, v := range values {
		own = max(own, depthOf(v)+1)
	}
	if int(own) > m.limits.Depth {
		return 0, wrongf("more than %d containers lie in one another", m.limits.Depth)
	}
	return own, nil
}

func (m *machine) tuple(items []any) (*Tuple, error) {
	depth, err := m.deeper(1, items...)
	return &Tuple{Items: slices.Clone(items), depth: depth}, err
}

func (m *machine) pushTuple(n int) error {
	items := make([]any, n)
	for k := n - 1; k >= 0; k-- {
		v, err := m.pop()
		if err != nil {
			return err
		}
		items[k] = v
	}
	depth, err := m.deeper(1, items...)
	if err != nil {
		return err
	}
	return m.push(&Tuple{Items: items, depth: depth})
}

func (m *machine) appendTo(target any, items []any) (err error) {
	switch t := target.(type) {
	case *List:
		t.depth, err = m.deeper(t.depth, items...)
		t.Items = append(t.Items, items...)
	case *Object:
		if t.Items == nil {
			t.Items = &List{depth: 1}
		}
		t.depth, err = m.deeper(t.depth, items...)
		t.Items.Items = append(t.Items.Items, items...)
	default:
		err = wrongf("it appends to %s", Describe(target))
	}
	return err
}

func (m *machine) setIn(target any, items []any) (err error) {
	if len(items)%2 != 0 {
		return wrongf("it sets %d keys and values in a dict, an odd number", len(items))
	}
	var d *Dict
	switch t := target.(type) {
	case *Dict:
		d = t
	case *Object:
		if t.Pairs == nil {
			t.Pairs = &Dict{depth: 1}
		}
		d = t.Pairs
		if t.depth, err = m.deeper(t.depth, items...); err != nil {
			return err
		}
	default:
		return wrongf("it sets a key of %s", Describe(target))
	}
	d.depth, err = m.deeper(d.depth, items...)
	d.Keys, d.Values = slices.Grow(d.Keys, len(items)/2), slices.Grow(d.Values, len(items)/2)
	for k := 0; k < len(items); k += 2 {
		d.Keys, d.Values = append(d.Keys, items[k]), append(d.Values, items[k+1])
	}
	return err
}

func (m *machine) global() (Global, error) {
	v, err := m.pop()
	if err != nil {
		return Global{}, err
	}
	g, is := v.(Global)
	if !is {
		return Global{}, wrongf("it calls %s, which is no class or function of a module", Describe(v))
	}
	return g, nil
}

func (m *machine) popTuple() (*Tuple, error) {
	v, err := m.pop()
	if err != nil {
		return nil, err
	}
	t, is := v.(*Tuple)
	if !is {
		return nil, wrongf("it calls with %s where a tuple must be", Describe(v))
	}
	return t, nil
}

// call pushes what a call would have returned.
func (m *machine) call(g Global, args *Tuple) error {
	v, err := m.resolve(g, args)
	if err != nil {
		return err
	}
	if o, is := v.(*Object); is {
		if o.depth, err = m.deeper(1, args); err != nil {
			return err
		}
	}
	return m.push(v)
}

func (m *machine) step(op byte) error {
	switch op {
	case '(': // MARK
		if len(m.marks) >= m.limits.Depth {
			return wrongf("more than %d marks are open", m.limits.Depth)
		}
		m.marks = append(m.marks, len(m.stack))
		return nil
	case '0': // POP, which may also take a mark
		if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
			m.marks = m.marks[:n-1]
			return nil
		}
		_, err := m.pop()
		return err
	case '1': // POP_MARK
		_, err := m.popMark()
		return err
	case '2': // DUP
		v, err := m.top()
		if err != nil {
			return err
		}
		return m.push(v)

	case 'N':
		return m.push(nil)
	case 0x88:
		return m.push(true)
	case 0x89:
		return m.push(false)
	case 'I': // INT, which also was bool's once
		line, err := m.line()
		if err != nil {
			return err
		}
		if line == "00" || line == "01" {
			return m.push(line == "01")
		}
		return m.pushInt(line)
	case 'L': // LONG
		line, err := m.line()
		if err != nil {
			return err
		}
		return m.pushInt(strings.TrimSuffix(line, "L"))
	case 'J': // BININT
		n, err := m.uint(4)
		if err != nil {
			return err
		}
		return m.push(int64(int32(n)))
	case 'K', 'M': // BININT1, BININT2
		n, err := m.uint(width(op))
		if err != nil {
			return err
		}
		return m.push(int64(n))
	case 0x8a, 0x8b: // LONG1, LONG4
		b, err := m.sized(width(op))
		if err != nil {
			return err
		}
		return m.pushLong(b)
	case 'F': // FLOAT
		line, err := m.line()
		if err != nil {
			return err
		}
		f, err := strconv.ParseFloat(line, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return wrongf("%.40q is no number", line)
		}
		return m.push(f)
	case 'G': // BINFLOAT
		b, err := m.take(8)
		if err != nil {
			return err
		}
		return m.push(math.Float64frombits(binary.BigEndian.Uint64(b)))

	case 'S': // STRING
		line, err := m.line()
		if err != nil {
			return err
		}
		s, err := unquote(line)
		if err != nil {
			return err
		}
		return m.push(s)
	case 'T', 'U': // BINSTRING, SHORT_BINSTRING: Python 2's str, text or bytes
		b, err := m.sized(width(op))
		if err != nil {
			return err
		}
		return m.push(string(b))
	case 'V': // UNICODE
		line, err := m.line()
		if err != nil {
			return err
		}
		s, err := rawUnicode(line)
		if err != nil {
			return err
		}
		return m.push(s)
	case 'X', 0x8c, 0x8d: // BINUNICODE, SHORT_BINUNICODE, BINUNICODE8
		b, err := m.sized(width(op))
		if err != nil {
			return err
		}
		if !utf8.Valid(b) {
			// Python writes lone surrogates this way. They are no text anywhere else.
			return m.push(strings.ToValidUTF8(string(b), "\uFFFD"))
		}
		return m.push(string(b))
	case 'B', 'C', 0x8e, 0x96: // BINBYTES, SHORT_BINBYTES, BINBYTES8, BYTEARRAY8
		b, err := m.sized(width(op))
		if err != nil {
			return err
		}
		return m.push(b)

	case ')':
		return m.push(&Tuple{depth: 1})
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		return m.pushTuple(int(op) - 0x84)
	case 't': // TUPLE
		items, err := m.popMark()
		if err != nil {
			return err
		}
		t, err := m.tuple(items)
		if err != nil {
			return err
		}
		return m.push(t)
	case ']':
		return m.push(&List{depth: 1})
	case 'l': // LIST
		items, err := m.popMark()
		if err != nil {
			return err
		}
		list := &List{depth: 1}
		if err := m.appendTo(list, items); err != nil {
			return err
		}
		return m.push(list)
	case 'a': // APPEND
		v, err := m.pop()
		if err != nil {
			return err
		}
		target, err := m.top()
		if err != nil {
			return err
		}
		return m.appendTo(target, []any{v})
	case 'e': // APPENDS
		items, err := m.popMark()
		if err != nil {
			return err
		}
		target, err := m.top()
		if err != nil {
			return err
		}
		return m.appendTo(target, items)
	case '}':
		return m.push(&Dict{depth: 1})
	case 'd': // DICT
		items, err := m.popMark()
		if err != nil {
			return err
		}
		d := &Dict{depth: 1}
		if err := m.setIn(d, items); err != nil {
			return err
		}
		return m.push(d)
	case 's': // SETITEM
		v, err := m.pop()
		if err != nil {
			return err
		}
		key, err := m.pop()
		if err != nil {
			return err
		}
		target, err := m.top()
		if err != nil {
			return err
		}
		return m.setIn(target, []any{key, v})
	case 'u': // SETITEMS
		items, err := m.popMark()
		if err != nil {
			return err
		}
		target, err := m.top()
		if err != nil {
			return err
		}
		return m.setIn(target, items)
	case 0x8f: // EMPTY_SET
		return m.push(&Set{depth: 1})
	case 0x90: // ADDITEMS
		items, err := m.popMark()
		if err != nil {
			return err
		}
		target, err := m.top()
		if err != nil {
			return err
		}
		set, is := target.(*Set)
		if !is {
			return wrongf("it adds to %s, which is no set", Describe(target))
		}
		set.depth, err = m.deeper(set.depth, items...)
		set.Items = append(set.Items, items...)
		return err
	case 0x91: // FROZENSET
		items, err := m.popMark()
		if err != nil {
			return err
		}
		depth, err := m.deeper(1, items...)
		if err != nil {
			return err
		}
		return m.push(&Set{Items: slices.Clone(items), depth: depth})

	case 'g': // GET
		n, err := m.number()
		if err != nil {
			return err
		}
		return m.recall(n)
	case 'h', 'j': // BINGET, LONG_BINGET
		n, err := m.uint(width(op))
		if err != nil {
			return err
		}
		return m.recall(int(n))
	case 'p': // PUT
		n, err := m.number()
		if err != nil {
			return err
		}
		return m.remember(n)
	case 'q', 'r': // BINPUT, LONG_BINPUT
		n, err := m.uint(width(op))
		if err != nil {
			return err
		}
		return m.remember(int(n))
	case 0x94: // MEMOIZE
		return m.remember(len(m.memo) + len(m.sparse))

	case 'c': // GLOBAL
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		return m.push(Global{Module: module, Name: name})
	case 0x93: // STACK_GLOBAL
		name, err := m.pop()
		if err != nil {
			return err
		}
		module, err := m.pop()
		if err != nil {
			return err
		}
		first, is := module.(string)
		second, too := name.(string)
		if !is || !too {
			return wrongf("it names a class by %s and %s, which are not both texts", Describe(module), Describe(name))
		}
		return m.push(Global{Module: first, Name: second})
	case 'R': // REDUCE
		args, err := m.popTuple()
		if err != nil {
			return err
		}
		g, err := m.global()
		if err != nil {
			return err
		}
		return m.call(g, args)
	case 0x81: // NEWOBJ
		args, err := m.popTuple()
		if err != nil {
			return err
		}
		g, err := m.global()
		if err != nil {
			return err
		}
		return m.call(g, args)
	case 0x92: // NEWOBJ_EX, with named arguments too
		named, err := m.pop()
		if err != nil {
			return err
		}
		args, err := m.popTuple()
		if err != nil {
			return err
		}
		g, err := m.global()
		if err != nil {
			return err
		}
		if d, is := named.(*Dict); !is || len(d.Keys) > 0 {
			if args, err = m.tuple(append(slices.Clone(args.Items), named)); err != nil {
				return err
			}
		}
		return m.call(g, args)
	case 'i': // INST
		module, err := m.line()
		if err != nil {
			return err
		}
		name, err := m.line()
		if err != nil {
			return err
		}
		items, err := m.popMark()
		if err != nil {
			return err
		}
		args, err := m.tuple(items)
		if err != nil {
			return err
		}
		return m.call(Global{Module: module, Name: name}, args)
	case 'o': // OBJ
		items, err := m.popMark()
		if err != nil {
			return err
		}
		if len(items) == 0 {
			return wrongf("it makes an instance and names no class")
		}
		g, is := items[0].(Global)
		if !is {
			return wrongf("it makes an instance of %s, which is no class", Describe(items[0]))
		}
		args, err := m.tuple(items[1:])
		if err != nil {
			return err
		}
		return m.call(g, args)
	case 'b': // BUILD
		state, err := m.pop()
		if err != nil {
			return err
		}
		target, err := m.top()
		if err != nil {
			return err
		}
		return m.build(target, state)

	case 0x80: // PROTO
		n, err := m.byte()
		if err == nil && n > 5 {
			err = wrongf("it is of protocol %d, and 5 is the last known: write it with pickle.dump(…, protocol=5)", n)
		}
		return err
	case 0x95: // FRAME: the length of what follows, which must be there
		n, err := m.uint(8)
		if err == nil && n > uint64(len(m.data)-m.at) {
			err = wrongf("it announces a frame of %d bytes and %d are left; was it cut off?", n, len(m.data)-m.at)
		}
		return err

	case 'P', 'Q':
		return wrongf("it refers to an object kept outside of the file (as torch.save does); write plain arrays " +
			"instead")
	case 0x82, 0x83, 0x84:
		return wrongf("it uses the extension registry (copyreg.add_extension) of the program that wrote it")
	case 0x97, 0x98:
		return wrongf("its buffers were kept outside of the file; write it without buffer_callback")
	}
	return wrongf("there is no instruction 0x%02x; is the file compressed, or of another kind?", op)
}

func (m *machine) number() (int, error) {
	line, err := m.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 10, 32)
	if err != nil {
		return 0, wrongf("%.40q is no number of a remembered value", line)
	}
	return int(n), nil
}

// maxDigits is Python's own limit, for the same reason: reading long numbers takes more than linear time.
const maxDigits = 4300

func (m *machine) pushInt(s string) error {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return m.push(n)
	}
	if len(s) > maxDigits {
		return wrongf("an int of %d digits", len(s))
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return wrongf("%.40q is no whole number", s)
	}
	return m.push(n)
}

// pushLong pushes a number in two's complement, little-endian.
func (m *machine) pushLong(b []byte) error {
	if len(b) == 0 {
		return m.push(int64(0))
	}
	negative := b[len(b)-1]&0x80 != 0
	if len(b) <= 8 {
		var word [8]byte
		if negative {
			word = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
		}
		copy(word[:], b)
		return m.push(int64(binary.LittleEndian.Uint64(word[:])))
	}
	big16 := slices.Clone(b)
	slices.Reverse(big16)
	n := new(big.Int).SetBytes(big16)
	if negative {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if n.IsInt64() {
		return m.push(n.Int64())
	}
	return m.push(n)
}

// unquote reads Python 2's repr of a str.
func unquote(s string) (string, error) {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return "", wrongf("%.40q is no text in quotes", s)
	}
	s = s[1 : len(s)-1]
	out := make([]byte, 0, len(s))
	for k := 0; k < len(s); k++ {
		if s[k] != '\\' {
			out = append(out, s[k])
			continue
		}
		k++
		if k == len(s) {
			return "", wrongf("a text ends within an escape")
		}
		switch s[k] {
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case '\\', '\'', '"':
			out = append(out, s[k])
		case 'x':
			if k+2 >= len(s) {
				return "", wrongf("a text ends within an escape")
			}
			n, err := strconv.ParseUint(s[k+1:k+3], 16, 8)
			if err != nil {
				return "", wrongf("\\x%s is no escape", s[k+1:k+3])
			}
			out = append(out, byte(n))
			k += 2
		default:
			out = append(out, '\\', s[k])
		}
	}
	return string(out), nil
}

// rawUnicode reads Python's raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX.
func rawUnicode(s string) (string, error) {
	var b strings.Builder
	for k := 0; k < len(s); k++ {
		digits := 0
		if s[k] == '\\' && k+1 < len(s) {
			switch s[k+1] {
			case 'u':
				digits = 4
			case 'U':
				digits = 8
			}
		}
		if digits == 0 {
			b.WriteRune(rune(s[k]))
			continue
		}
		if k+2+digits > len(s) {
			return "", wrongf("a text ends within an escape")
		}
		n, err := strconv.ParseUint(s[k+2:k+2+digits], 16, 32)
		if err != nil {
			return "", wrongf("%.10q is no escape", s[k:k+2+digits])
		}
		b.WriteRune(rune(n)) // a rune that does not exist becomes U+FFFD
		k += 1 + digits
	}
	return b.String(), nil
}

// width is the number of bytes of the number that follows an instruction.
func width(op byte) int {
	switch op {
	case 'K', 'U', 'C', 'h', 'q', 0x8a, 0x8c:
		return 1
	case 'M':
		return 2
	case 0x8d, 0x8e, 0x96:
		return 8
	}
	return 4
}

var opNames = map[byte]string{
	'(': "MARK", '.': "STOP", '0': "POP", '1': "POP_MARK", '2': "DUP", 'F': "FLOAT", 'I': "INT", 'J': "BININT",
	'K': "BININT1",
	'L': "LONG", 'M': "BININT2", 'N': "NONE", 'P': "PERSID", 'Q': "BINPERSID", 'R': "REDUCE", 'S': "STRING",
	'T': "BINSTRING",
	'U': "SHORT_BINSTRING", 'V': "UNICODE", 'X': "BINUNICODE", 'a': "APPEND", 'b': "BUILD", 'c': "GLOBAL", 'd': "DICT",
	'}': "EMPTY_DICT", 'e': "APPENDS", 'g': "GET", 'h': "BINGET", 'i': "INST", 'j': "LONG_BINGET", 'l': "LIST",
	']': "EMPTY_LIST",
	'o': "OBJ", 'p': "PUT", 'q': "BINPUT", 'r': "LONG_BINPUT", 's': "SETITEM", 't': "TUPLE", ')': "EMPTY_TUPLE",
	'u': "SETITEMS",
	'G': "BINFLOAT", 0x80: "PROTO", 0x81: "NEWOBJ", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x85: "TUPLE1",
	0x86: "TUPLE2",
	0x87: "TUPLE3", 0x88: "NEWTRUE", 0x89: "NEWFALSE", 0x8a: "LONG1", 0x8b: "LONG4", 'B': "BINBYTES",
	'C':  "SHORT_BINBYTES",
	0x8c: "SHORT_BINUNICODE", 0x8d: "BINUNICODE8", 0x8e: "BINBYTES8", 0x8f: "EMPTY_SET", 0x90: "ADDITEMS",
	0x91: "FROZENSET",
	0x92: "NEWOBJ_EX", 0x93: "STACK_GLOBAL", 0x94: "MEMOIZE", 0x95: "FRAME", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER",
	0x98: "READONLY_BUFFER",
}

func opName(op byte) string {
	if name, known := opNames[op]; known {
		return name
	}
	return fmt.Sprintf("0x%02x", op)
}

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
	"github.com/go-json-experiment/json/jsontext"

	"unseen/hint"
)

// checkBody compares a body with the schema of its operation, token by token. It builds nothing, and it ends at the
// first fault too many: what a body costs does not depend on how much is wrong with it.
func checkBody(schema *huma.Schema, all huma.Registry, raw []byte) *problem {
	c := &bodyCheck{all: all, tokens: jsontext.NewDecoder(bytes.NewReader(raw))}
	err := c.value(schema)
	if err == nil {
		if _, err = c.tokens.ReadToken(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("something follows the JSON value")
		}
	}
	if err == nil || errors.Is(err, errFaults) {
		if len(c.faults) == 0 {
			return nil
		}
		p := newProblem(http.StatusUnprocessableEntity, errors.New("validation failed"))
		if p.Errors = c.faults; err != nil {
			p.Detail += fmt.Sprintf("; the first %d errors", maxFaults)
		}
		return p
	}
	if found, ok := errors.AsType[*problem](err); ok {
		return found
	}
	p := newProblem(http.StatusBadRequest, errors.New("validation failed"))
	p.Errors = []*huma.ErrorDetail{{Location: "body", Message: err.Error()}}
	return p
}

// errFaults ends the check.
var errFaults = errors.New("too many faults")

// bodyCheck is the check of one body.
type bodyCheck struct {
	all     huma.Registry
	tokens  *jsontext.Decoder
	place   []pathStep
	values  int
	faults  []*huma.ErrorDetail
	scratch []byte // a text without its quotes
}

// pathStep is a name or, without one, an index.
type pathStep struct {
	name  string
	index int
}

func (c *bodyCheck) location() string {
	var b strings.Builder
	b.WriteString("body")
	for _, step := range c.place {
		if step.name == "" {
			fmt.Fprintf(&b, "[%d]", step.index)
		} else {
			b.WriteString("." + clip(step.name))
		}
	}
	return b.String()
}

func (c *bodyCheck) fault(value []byte, format string, args ...any) error {
	detail := &huma.ErrorDetail{Location: c.location(), Message: fmt.Sprintf(format, args...)}
	if value != nil {
		detail.Value = clip(string(value[:min(len(value), 400)]))
	}
	c.faults = append(c.faults, detail)
	if len(c.faults) >= maxFaults {
		return errFaults
	}
	return nil
}

// count counts the value that comes next.
func (c *bodyCheck) count() error {
	tooMuch := func(what, advice string, limit int) error {
		return newProblem(http.StatusUnprocessableEntity,
			hint.Wrap(fmt.Errorf("request body %s %d", what, limit), "%s", advice))
	}
	if c.values++; c.values > maxValues {
		return tooMuch("has more values than", "send it in several requests", maxValues)
	}
	if c.tokens.StackDepth() >= maxDepth {
		return tooMuch("is nested deeper than", "send it as the API reference describes it", maxDepth)
	}
	return nil
}

// value checks the next value.
func (c *bodyCheck) value(s *huma.Schema) error {
	for s.Ref != "" {
		s = c.all.SchemaFromRef(s.Ref)
	}
	if err := c.count(); err != nil {
		return err
	}
	kind := c.tokens.PeekKind()
	if kind == 'n' && s.Nullable {
		_, err := c.tokens.ReadToken()
		return err
	}
	switch s.Type {
	case huma.TypeObject:
		if kind == '{' {
			return c.object(s)
		}
		return c.unfit(validation.MsgExpectedObject)
	case huma.TypeArray:
		if kind == '[' {
			return c.array(s)
		}
		return c.unfit(validation.MsgExpectedArray)
	case huma.TypeBoolean:
		if kind != 't' && kind != 'f' {
			return c.unfit(validation.MsgExpectedBoolean)
		}
	case huma.TypeNumber, huma.TypeInteger:
		if kind != '0' {
			return c.unfit(map[string]string{huma.TypeNumber: validation.MsgExpectedNumber,
				huma.TypeInteger: validation.MsgExpectedInteger}[s.Type])
		}
	case huma.TypeString:
		if kind != '"' {
			return c.unfit(validation.MsgExpectedString)
		}
	}
	raw, err := c.tokens.ReadValue()
	if err != nil {
		return err
	}
	if kind == '"' {
		return c.text(s, raw)
	}
	if kind == '0' {
		return c.number(s, raw)
	}
	return nil
}

// unfit reports a value of the wrong type and skips it. A syntax error counts as that.
func (c *bodyCheck) unfit(message string) error {
	if kind := c.tokens.PeekKind(); kind != '{' && kind != '[' {
		raw, err := c.tokens.ReadValue()
		if err != nil {
			return err
		}
		return c.fault(raw, "%s", message)
	}
	if err := c.fault(nil, "%s", message); err != nil {
		return err
	}
	return c.skip()
}

// skip reads over a value without keeping it.
func (c *bodyCheck) skip() error {
	for depth := c.tokens.StackDepth(); ; {
		if err := c.count(); err != nil {
			return err
		}
		if _, err := c.tokens.ReadToken(); err != nil {
			return err
		}
		if c.tokens.StackDepth() <= depth {
			return nil
		}
	}
}

func (c *bodyCheck) object(s *huma.Schema) error {
	if _, err := c.tokens.ReadToken(); err != nil {
		return err
	}
	var given uint64 // of the required properties, by their place in the schema
	for c.tokens.PeekKind() != '}' {
		raw, err := c.tokens.ReadValue() // the name
		if err != nil {
			return err
		}
		c.scratch, err = jsontext.AppendUnquote(c.scratch[:0], raw)
		if err != nil {
			return err
		}
		name, of := property(s, c.scratch)
		c.place = append(c.place, pathStep{name: name})
		required := slices.Index(s.Required, name)
		switch {
		case of == nil:
			if err = c.fault(nil, "%s", validation.MsgUnexpectedProperty); err == nil {
				err = c.skip()
			}
		case required < 0 && c.tokens.PeekKind() == 'n': // as if it were left out
			_, err = c.tokens.ReadToken()
		default:
			if required >= 0 {
				given |= 1 << required
			}
			err = c.value(of)
		}
		if err != nil {
			return err
		}
		c.place = c.place[:len(c.place)-1]
	}
	if _, err := c.tokens.ReadToken(); err != nil {
		return err
	}
	if bits.OnesCount64(given) == len(s.Required) {
		return nil
	}
	for k, name := range s.Required {
		if given&(1<<k) == 0 && !s.Properties[name].ReadOnly {
			if err := c.fault(nil, validation.MsgExpectedRequiredProperty, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// property finds a property by its name, as the decoder will: ignoring case.
func property(s *huma.Schema, name []byte) (string, *huma.Schema) {
	if of, ok := s.Properties[string(name)]; ok {
		return string(name), of
	}
	for known, of := range s.Properties {
		if strings.EqualFold(known, string(name)) {
			return known, of
		}
	}
	return clip(string(name)), nil
}

func (c *bodyCheck) array(s *huma.Schema) error {
	if _, err := c.tokens.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; c.tokens.PeekKind() != ']'; n++ {
		if s.MaxItems != nil && n == *s.MaxItems {
			if err := c.fault(nil, validation.MsgExpectedMaxItems, n); err != nil {
				return err
			}
			return errFaults // what follows needs no look
		}
		c.place = append(c.place, pathStep{index: n})
		if err := c.value(s.Items); err != nil {
			return err
		}
		c.place = c.place[:len(c.place)-1]
	}
	if _, err := c.tokens.ReadToken(); err != nil {
		return err
	}
	if s.MinItems != nil && n < *s.MinItems {
		return c.fault(nil, validation.MsgExpectedMinItems, *s.MinItems)
	}
	return nil
}

func (c *bodyCheck) text(s *huma.Schema, raw []byte) (err error) {
	if s.MinLength == nil && s.MaxLength == nil && s.Format == "" && s.Enum == nil {
		return nil
	}
	if c.scratch, err = jsontext.AppendUnquote(c.scratch[:0], raw); err != nil {
		return err
	}
	runes := utf8.RuneCount(c.scratch)
	switch {
	case s.MinLength != nil && runes < *s.MinLength:
		return c.fault(c.scratch, validation.MsgExpectedMinLength, *s.MinLength)
	case s.MaxLength != nil && runes > *s.MaxLength:
		return c.fault(c.scratch, validation.MsgExpectedMaxLength, *s.MaxLength)
	case s.Enum != nil && !slices.ContainsFunc(s.Enum, func(v any) bool { return v == string(c.scratch) }):
		return c.fault(c.scratch, validation.MsgExpectedOneOf, strings.Trim(fmt.Sprint(s.Enum), "[]"))
	case s.Format == "date-time":
		if _, err := time.Parse(time.RFC3339, string(c.scratch)); err != nil {
			return c.fault(c.scratch, "%s", validation.MsgExpectedRFC3339DateTime)
		}
	}
	return nil
}

func (c *bodyCheck) number(s *huma.Schema, raw []byte) error {
	x, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil:
		return c.fault(raw, "%s", validation.MsgExpectedNumber)
	case s.Type == huma.TypeInteger && x != float64(int64(x)) && x < 1<<53:
		return c.fault(raw, "%s", validation.MsgExpectedInteger)
	case s.Minimum != nil && x < *s.Minimum:
		return c.fault(raw, validation.MsgExpectedMinimumNumber, *s.Minimum)
	case s.Maximum != nil && x > *s.Maximum:
		return c.fault(raw, validation.MsgExpectedMaximumNumber, *s.Maximum)
	}
	return nil
}

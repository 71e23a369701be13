package amount

import "testing"

func TestText(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]int{"0": 0, "7": 7, "-7": -7, "123": 123, "-123": -123, "1,234": 1234,
		"-1,234": -1234, "123,456": 123456, "-123,456": -123456, "1,234,567": 1234567} {
		if got := Text(n); got != want {
			t.Errorf("%d is written %q, want %q", n, got, want)
		}
	}
}

func TestNouns(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{"1 node": Of(1, "node"), "0 nodes": Of(0, "node"),
		"2,000 nodes": Of(int64(2000), "node"), "1 link is": OneOrMore(1, "link is", "links are"),
		"2 links are": OneOrMore(2, "link is", "links are")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

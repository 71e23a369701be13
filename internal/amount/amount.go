// Package amount writes whole numbers for people: in groups of three digits, with their nouns.
package amount

import "strconv"

// Text writes a number with commas: 1,234,567.
func Text[T int | int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	for k := len(text) - 3; k > 0 && text[k-1] != '-'; k -= 3 {
		text = text[:k] + "," + text[k:]
	}
	return text
}

// Of writes a number with its noun: 1 node, 2,000 nodes.
func Of[T int | int64](n T, noun string) string { return OneOrMore(n, noun, noun+"s") }

// OneOrMore writes a number with words of which there are two forms: 1 link is, 2,000 links are.
func OneOrMore[T int | int64](n T, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return Text(n) + " " + more
}

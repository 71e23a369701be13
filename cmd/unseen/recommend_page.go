package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"unseen/internal/amount"
	"unseen/internal/safetext"
	"unseen/recommend"
)

// printList draws a list for a terminal of 80 columns.
func printList(b *strings.Builder, list *recommend.List, f recommendFlags) {
	fmt.Fprintf(b, "For %s", listName(list, f.text))
	if list.Field != "" {
		fmt.Fprintf(b, " (%s)", list.Field)
	}
	fmt.Fprintf(b, "\n%s candidates\n\n", amount.Text(list.Candidates))
	if f.compare {
		printBeside(b, list)
		return
	}
	drawn := f.explore > 0
	if f.naive != "" {
		b.WriteString("   naive → now   ")
	} else {
		b.WriteString("      ")
	}
	fmt.Fprintf(b, "%-44s %5s %5s", "title, field", "ŷ", "π̂")
	if drawn {
		fmt.Fprintf(b, " %6s", "shown")
	}
	b.WriteString("\n")
	for _, item := range list.Items {
		mark := " "
		if item.Hidden {
			mark = "*"
		}
		if f.naive != "" {
			fmt.Fprintf(b, "%s %6s → %-4d  ", mark, amount.Text(item.NaiveRank), item.ByLink)
		} else {
			fmt.Fprintf(b, "%s %3d ", mark, item.Rank)
		}
		name := item.Title
		if name == "" {
			name = item.ID
		}
		fmt.Fprintf(b, "%-*s %5s %5s", 44+wide(short(name, 44)), short(name, 44), share(item.Link),
			share(item.Propensity))
		if drawn {
			fmt.Fprintf(b, " %6s", share(item.Shown))
		}
		indent := "      "
		if f.naive != "" {
			indent = "                 "
		}
		why := "      "
		weak := ""
		if item.Weak {
			weak = ", π̂ from few links"
		}
		fmt.Fprintf(b, "\n%s%s\n", indent, short(item.ID+"  "+item.Field+weak, 60))
		if item.Why != nil {
			printWhy(b, item.Why, why)
		}
	}
	hidden := 0
	for _, item := range list.Items {
		hidden += count(item.Hidden)
	}
	if hidden > 0 {
		fmt.Fprintf(b, "\n* hidden by exposure: not among the first %d by π̂ŷ, as links are seen (%d here)\n", f.k,
			hidden)
	}
	printNotes(b, list)
}

// printNotes says how far the assumptions agree on a list, and what else is to be known of it.
func printNotes(b *strings.Builder, list *recommend.List) {
	if list.Agreement != nil {
		b.WriteString("\n" + wrap(list.Agreement.String()))
	}
	for _, warning := range list.Warnings {
		b.WriteString("\n" + wrap("note: "+warning))
	}
}

// printBeside draws both lists side by side.
func printBeside(b *strings.Builder, list *recommend.List) {
	name := func(i recommend.Item) string {
		if i.Title != "" {
			return i.Title
		}
		return i.ID
	}
	fmt.Fprintf(b, "     %-36s   %s\n", "naive", "corrected")
	naive := map[string]bool{}
	for _, item := range list.Naive {
		naive[item.ID] = true
	}
	for k, item := range list.Items {
		left := ""
		if k < len(list.Naive) {
			left = short(name(list.Naive[k]), 36)
		}
		mark := " "
		if !naive[item.ID] {
			mark = "*"
		}
		fmt.Fprintf(b, "%4d %-*s %s %s\n", k+1, 36+wide(left), left, mark, short(name(item), 36))
	}
	b.WriteString("\n* not in the naive list\n")
	printNotes(b, list)
}

// printWhy draws an explanation below an item.
func printWhy(b *strings.Builder, e *recommend.Explanation, indent string) {
	for _, child := range e.Children {
		line := func(indent string, e *recommend.Explanation) {
			b.WriteString(fill(e.Message, fmt.Sprintf("%s%7s  ", indent, contribution(e.Value)), indent+"         "))
		}
		line(indent, child)
		for _, leaf := range child.Children {
			line(indent+"  ", leaf)
		}
	}
}

// contribution writes a count as it is and other numbers in three digits.
func contribution(x float64) string {
	if x == float64(int(x)) && x >= 0 && x < 1e9 {
		return amount.Text(int(x))
	}
	return fmt.Sprintf("%.3g", x)
}

// share writes a probability in two digits that count.
func share(p float64) string {
	switch {
	case p >= .995:
		return "1.0"
	case p >= .01:
		return strings.TrimPrefix(fmt.Sprintf("%.2f", p), "0")
	}
	return fmt.Sprintf("%.0e", p)
}

// wide is how many runes of a text take no column of their own.
func wide(text string) int {
	n := 0
	for _, r := range text {
		if unicode.Is(unicode.Mn, r) {
			n++
		}
	}
	return n
}

var listColumns = []string{"source", "rank", "target", "title", "field", "time", "link", "propensity", "shown",
	"corrected_rank", "naive_rank", "hidden", "seen_rank"}

func writeListsCSV(w io.Writer, lists []*recommend.List) error {
	out := csv.NewWriter(w)
	if err := out.Write(listColumns); err != nil {
		return err
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, list := range lists {
		for _, i := range list.Items {
			rank := func(x int) string {
				if x > 0 {
					return strconv.Itoa(x)
				}
				return ""
			}
			if err := out.Write(safetext.Cells([]string{list.Source.ID, strconv.Itoa(i.Rank), i.ID, i.Title, i.Field,
				i.Time, number(i.Link), number(i.Propensity), number(i.Shown), strconv.Itoa(i.ByLink),
				rank(i.NaiveRank), strconv.FormatBool(i.Hidden), rank(i.SeenRank)})); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

func writeListsJSONL(w io.Writer, lists []*recommend.List) error {
	lines := json.NewEncoder(w)
	for _, list := range lists {
		for _, item := range list.Items {
			if err := lines.Encode(struct {
				Source string `json:"source"`
				recommend.Item
			}{list.Source.ID, item}); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeReferences writes a reading list for reference managers: each paper once, in the order of the lists.
func writeReferences(w io.Writer, format string, lists []*recommend.List) error {
	var b strings.Builder
	var keys safetext.Keys
	seen := map[string]bool{}
	for _, list := range lists {
		for _, item := range list.Items {
			if seen[item.ID] {
				continue
			}
			seen[item.ID] = true
			reference(&b, format, item, &keys)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// reference writes one entry in BibTeX or RIS.
func reference(b *strings.Builder, format string, item recommend.Item, keys *safetext.Keys) {
	title, year := item.Title, ""
	if title == "" {
		title = item.ID
	}
	if len(item.Time) >= 4 {
		year = item.Time[:4]
	}
	note := fmt.Sprintf("recommended by unseen: P(link if shown) = %.3g, P(shown) = %.3g", item.Link, item.Propensity)
	if format == "ris" {
		line := func(tag, value string) {
			if value != "" {
				fmt.Fprintf(b, "%s  - %s\r\n", tag, safetext.Value(value))
			}
		}
		line("TY", "GEN")
		line("ID", item.ID)
		line("TI", title)
		line("PY", year)
		line("KW", item.Field)
		line("N1", note)
		b.WriteString("ER  - \r\n\r\n")
		return
	}
	fmt.Fprintf(b, "@misc{%s,\n", keys.Of(item.ID))
	for _, field := range [][2]string{{"title", title}, {"year", year}, {"keywords", item.Field}, {"note", note}} {
		if field[1] != "" {
			fmt.Fprintf(b, "  %s = {%s},\n", field[0], safetext.BibTeX(field[1]))
		}
	}
	b.WriteString("}\n\n")
}

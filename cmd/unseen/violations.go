package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"unseen/world"
)

// violations are what --violate takes: an assumption of learning each, and the setting that breaks it.
var violations = []struct {
	name, about string
	number      func(*world.Scenario) *float64 // nil for the response, which is a word
}{
	{"text", "what is relevant by its text is shown more; from 0 to 1",
		func(s *world.Scenario) *float64 { return &s.Violations.Text }},
	{"popularity", "some targets are shown more than others, such as 1",
		func(s *world.Scenario) *float64 { return &s.Violations.Popularity }},
	{"age", "older targets are shown more, by this much a decade",
		func(s *world.Scenario) *float64 { return &s.Violations.Age }},
	{"quality", "some targets are more relevant than others, such as 1",
		func(s *world.Scenario) *float64 { return &s.Violations.Quality }},
	{"ceiling", "no y is above it; at most 1",
		func(s *world.Scenario) *float64 { return &s.Ceiling }},
	{"dependence", "correlation of exposure and relevance; between -1 and 1",
		func(s *world.Scenario) *float64 { return &s.Violations.Dependence }},
	{"response", "of y to the text: logit, probit or cauchit", nil},
}

// violationNames are their names.
func violationNames() (names []string) {
	for _, v := range violations {
		names = append(names, v.name)
	}
	return names
}

// violationList explains them, a line each.
func violationList() string {
	var b strings.Builder
	for _, v := range violations {
		fmt.Fprintf(&b, "  %-11s %s\n", v.name, v.about)
	}
	return b.String()
}

// violate reads text=0.5 into a scenario.
func violate(s *world.Scenario, text string) error {
	name, value, _ := strings.Cut(text, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	at := slices.Index(violationNames(), name)
	if at < 0 {
		return usagef("--violate is %q; write name=value, where the name is one of %s", text,
			strings.Join(violationNames(), ", "))
	}
	v := violations[at]
	if v.number == nil {
		s.Violations.Response = value
		return nil
	}
	x, err := strconv.ParseFloat(value, 64)
	if err != nil || v.name == "ceiling" && x == 0 { // to the world 0 means no ceiling
		return usagef("--violate is %q; write %s=number: %s", text, name, v.about)
	}
	*v.number(s) = x
	return nil
}

// violated lists what a scenario violates, as --violate takes it.
func violated(s world.Scenario) (list []string) {
	for _, v := range violations {
		if v.number == nil {
			if s.Violations.Response != "" {
				list = append(list, v.name+"="+s.Violations.Response)
			}
		} else if x := *v.number(&s); x != 0 {
			list = append(list, v.name+"="+strconv.FormatFloat(x, 'g', -1, 64))
		}
	}
	return list
}

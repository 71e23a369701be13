package fit

import (
	"fmt"

	"unseen/progress"
)

// round is an epoch, a round or an iteration of training under way.
type round struct {
	phase      string
	number, of int     // from 1
	loss       float64 // 0 before the first
	validation float64 // the validation pairs' likelihood; 0 before the first
}

// meter counts pairs and reports rounds, not too often.
type meter struct{ *progress.Meter }

// newMeter expects this many pairs; 0 where only rounds can be counted.
func newMeter(report progress.Func, total int64) meter {
	return meter{progress.NewMeter(report, "", total)}
}

// add counts pairs and reports about every tenth of a second, or if it is forced to.
func (m meter) add(pairs int, force bool, at func() round) {
	count := m.Add
	if force {
		count = m.Flush
	}
	count(int64(pairs), func(e *progress.Event) {
		r := at()
		e.Phase, e.Values = r.phase, map[string]float64{"round": float64(r.number)}
		for name, value := range map[string]float64{"loss": r.loss, "validation": r.validation,
			"speed": m.Speed()} { // pairs per second
			if value != 0 {
				e.Values[name] = value
			}
		}
		if r.of > 1 {
			e.Message = fmt.Sprintf("%d/%d", r.number, r.of)
		}
		switch {
		case e.Of > 0:
		case r.of > 1:
			e.Done, e.Of = int64(r.number-1), int64(r.of)
		default:
			e.Done = 0
		}
	})
}

package fit

import (
	"os"
	"testing"

	"unseen/internal/temptest"
)

// Checkpoints are synced often.
func TestMain(m *testing.M) { os.Exit(temptest.Run(m.Run)) }

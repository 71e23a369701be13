package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"unseen/internal/atomicfile"
)

// ErrStateInUse: another service has the state folder.
var ErrStateInUse = errors.New("state folder is in use")

// The files of a state folder, as patterns. Other files in it, such as the dataset's, are not the service's.
var (
	stateFolders = []string{"models"}
	stateFiles   = []string{"unseen.lock", "events.db", "events.db-*", "events.spool", "audit.log", "audit.log.*",
		"jobs.json", "watch.json", "models/*"}
)

// claimState makes the state folder this service's alone until release, or until the process is gone: two services
// would overwrite each other's models and jobs. Only the owner may read what is in it. Links are refused, because who
// makes one could have the service write elsewhere; the folder itself may be reached through one.
func claimState(folder string, log *slog.Logger) (release func() error, err error) {
	paths := []string{}
	for _, pattern := range slices.Concat(stateFolders, stateFiles) {
		found := []string{pattern} // also a link to nothing
		if strings.Contains(pattern, "*") {
			if found, err = fs.Glob(os.DirFS(folder), pattern); err != nil {
				return nil, err
			}
		}
		for _, name := range found {
			paths = append(paths, filepath.Join(folder, filepath.FromSlash(name)))
		}
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !info.IsDir() && !info.Mode().IsRegular():
			return nil, fmt.Errorf("%s is a link or no file; move it away: the service follows none in its "+
				"state folder",
				path)
		}
	}
	release, err = atomicfile.Claim(filepath.Join(folder, "unseen.lock"))
	if held, ok := errors.AsType[*atomicfile.HeldError](err); ok {
		return nil, fmt.Errorf("%w: %v; stop that service, or give this one a state folder of its own", ErrStateInUse,
			held)
	}
	if err != nil {
		return nil, err
	}
	for _, path := range append(paths, folder) {
		if err := makeOwn(path); err != nil {
			log.Warn("others may read a file of the state", "error", err)
		}
	}
	return release, nil
}

// makeOwn takes the permissions of everybody but the owner away.
func makeOwn(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode()&0o077 == 0 || info.Mode()&fs.ModeSymlink != 0 {
		return err
	}
	if info.IsDir() {
		return os.Chmod(path, info.Mode().Perm()&0o700)
	}
	return os.Chmod(path, info.Mode().Perm()&0o600)
}

package store

import "fmt"

// LimitPages makes SQLite answer as it does on a full disk once its file has this many pages.
func LimitPages(log Store, pages int) {
	if _, err := log.(*sqliteStore).writer.Exec(fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
		panic(err)
	}
}

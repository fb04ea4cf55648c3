// Package sqlite3 stands in for a database that needs a C compiler, and that the API server names but cannot use.
package sqlite3

// ErrConstraint is what its own tests ask for.
const ErrConstraint = 19

// Error is never made.
type Error struct{ Code int }

func (Error) Error() string { return "there is no SQLite here" }

package pgserver

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is who a server runs as. The zero value is ourselves.
type account struct {
	uid, gid uint32
	switched bool
}

// serverAccount returns ourselves, or as root the unprivileged account that
// runs servers in our place.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return account{uid: uint32(uid), gid: uint32(gid), switched: true}, nil
	}
	return account{}, fmt.Errorf("choose an account for PostgreSQL, which refuses to run as root: " +
		"neither postgres nor nobody exists here; create one of them or run as another user")
}

// own hands everything below dir to the account.
func (a account) own(dir string) error {
	if !a.switched {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(a.uid), int(a.gid))
	})
}

// reaches reports whether the account may walk down to dir. Only the bits for
// others are looked at: the account owns none of the directories above.
func (a account) reaches(dir string) error {
	if !a.switched {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolve server directory: %w", err)
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return fmt.Errorf("look at directory %s: %w", parent, err)
		}
		if info.Mode()&0o001 == 0 && !ownedBy(info, a) {
			return fmt.Errorf("directory %s cannot be entered by the account that runs PostgreSQL: "+
				"choose another place, or `chmod o+x %s`", parent, parent)
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}

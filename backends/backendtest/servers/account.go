package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// account is a user of this machine; 0 stands for us.
type account struct{ uid, gid int }

// unprivileged is who servers that refuse to be root run as.
func unprivileged() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	who, err := user.Lookup("postgres")
	if errors.As(err, new(user.UnknownUserError)) {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		return account{}, err
	}
	uid, uidErr := strconv.Atoi(who.Uid)
	gid, gidErr := strconv.Atoi(who.Gid)
	return account{uid, gid}, errors.Join(uidErr, gidErr)
}

// folder is one of the account's, with a short name: that of a socket in it has to be.
func (a account) folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flockd-pg-")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = errors.Join(a.own(dir), os.Chmod(dir, 0o755)) // tests look into it as other users
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// own gives a file to the account.
func (a account) own(file string) error {
	if a.uid == 0 {
		return nil
	}
	return os.Chown(file, a.uid, a.gid)
}

// enterable lets every user reach what is in a test's folder, whose parent Go keeps to us.
func enterable(dir string) error { return os.Chmod(filepath.Dir(dir), 0o711) }

// run runs a command to its end in a folder of the account's.
func (a account) run(dir, stdin, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin, cmd.SysProcAttr = dir, strings.NewReader(stdin), &syscall.SysProcAttr{Credential: a.credential()}
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), "ERROR:") {
		err = errors.New("a statement failed") // which ends no server
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return nil
}

func (a account) credential() *syscall.Credential {
	if a.uid == 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

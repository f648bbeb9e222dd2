//go:build linux

package testscripts

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// machineInit becomes process 1 of a machine: machine ROOT FLOCKD, in new
// namespaces. See boot.
func machineInit() {
	root, flockd := os.Args[1], os.Args[2]
	runtime.LockOSThread() // the cgroup namespace is this thread's
	fatal(unix.Unshare(unix.CLONE_NEWCGROUP))
	fatal(unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	fatal(unix.Mount("tmpfs", root, "tmpfs", 0, "mode=755"))
	fatal(os.Chdir(root))
	fatal(os.Chmod(".", 0o755))
	folders()
	files(flockd)
	loopback()
	fatal(unix.PivotRoot(".", "mnt"))
	fatal(unix.Unmount("mnt", unix.MNT_DETACH))
	fatal(os.Chdir("/"))
	fatal(unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SHARED, "")) // as on a host; credentials need it
	// Not the host's units, and no generator's: what is to run is written there.
	env := []string{"container=flockd", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin", "SYSTEMD_UNIT_PATH=/etc/systemd/system"}
	fatal(syscall.Exec("/usr/lib/systemd/systemd", []string{"systemd", "--unit=multi-user.target", "--log-target=null", "--show-status=no"}, env))
}

// folders are the machine's file systems.
func folders() {
	for _, dir := range []string{
		"dev", "proc", "sys", "run/user", "mnt", "root", "home", "usr/local/bin", "usr/sbin",
		"var/lib", "var/log", "var/spool/cron/crontabs", "etc/cron.d", "etc/flockd", "etc/systemd/system/service.d",
	} {
		fatal(os.MkdirAll(dir, 0o755))
	}
	for _, dir := range []string{"tmp", "var/tmp", "var/mail"} {
		fatal(os.Mkdir(dir, 0o777))
		fatal(os.Chmod(dir, 0o777|os.ModeSticky))
	}
	os.Symlink("../run", "var/run")
	for _, dir := range []string{"usr/bin", "usr/lib", "usr/lib64", "usr/libexec", "usr/share"} {
		if _, err := os.Stat("/" + dir); err == nil {
			fatal(os.Mkdir(dir, 0o755))
			fatal(unix.Mount("/"+dir, dir, "", unix.MS_BIND|unix.MS_REC, ""))
			fatal(unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		}
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		fatal(os.Symlink("usr/"+dir, dir))
	}
	devices()
	fatal(unix.Mount("proc", "proc", "proc", 0, ""))
	fatal(unix.Mount("proc/sys", "proc/sys", "", unix.MS_BIND, ""))
	fatal(unix.Mount("", "proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	fatal(unix.Mount("sysfs", "sys", "sysfs", unix.MS_RDONLY, ""))
	fatal(unix.Mount("cgroup2", "sys/fs/cgroup", "cgroup2", 0, ""))
}

// devices are those that anybody may use, and nothing of the host's console.
func devices() {
	fatal(unix.Mount("tmpfs", "dev", "tmpfs", 0, "mode=755"))
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		write("dev/"+name, "")
		fatal(unix.Mount("/dev/"+name, "dev/"+name, "", unix.MS_BIND, ""))
	}
	for _, dir := range []string{"dev/shm", "dev/mqueue", "dev/pts"} {
		fatal(os.Mkdir(dir, 0o777))
	}
	fatal(unix.Mount("devpts", "dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620"))
	fatal(os.Symlink("pts/ptmx", "dev/ptmx"))
	fatal(os.Symlink("/proc/self/fd", "dev/fd"))
}

// files are what the machine has beside the host's /usr.
func files(flockd string) {
	program, err := os.ReadFile(flockd)
	fatal(err)
	cron, err := os.ReadFile("/usr/sbin/cron")
	fatal(err)
	for name, text := range map[string]string{
		"etc/passwd":           "root:x:0:0::/root:/bin/sh\nmessagebus:x:100:100::/nonexistent:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\nreport:x:1500:1500::/home/report:/bin/sh\n",
		"etc/group":            "root:x:0:\nmessagebus:x:100:\ncrontab:x:108:\nnogroup:x:65534:\nreport:x:1500:\n",
		"etc/shadow":           "root:*:19000:0:99999:7:::\nreport:*:19000:0:99999:7:::\n",
		"etc/nsswitch.conf":    "passwd: files systemd\ngroup: files systemd\nhosts: files\n",
		"etc/hosts":            "127.0.0.1 localhost redis.example.org\n",
		"etc/machine-id":       "0123456789abcdef0123456789abcdef\n",
		"usr/local/bin/flockd": string(program),
		"usr/sbin/cron":        string(cron),
	} {
		write(name, text)
	}
	fatal(os.Chmod("etc/shadow", 0o600))
	fatal(os.Chmod("usr/local/bin/flockd", 0o755))
	fatal(os.Chmod("usr/sbin/cron", 0o755))
	for _, dir := range []string{"etc/pam.d", "etc/security"} {
		fatal(os.CopyFS(dir, os.DirFS("/"+dir)))
	}
	fatal(os.Mkdir("home/report", 0o700))
	fatal(os.Chown("home/report", 1500, 1500))
	units()
}

// units are what a boot needs, and what every service of the machine has.
func units() {
	dir := "etc/systemd/system"
	for _, target := range []string{"sysinit", "basic", "shutdown", "timers", "sockets", "multi-user"} {
		write(filepath.Join(dir, target+".target"), "[Unit]\nDescription="+target+"\nDefaultDependencies=no\n")
	}
	write(filepath.Join(dir, "service.d/output.conf"), "[Service]\nStandardOutput=append:/var/log/%N\nStandardError=append:/var/log/%N\n")
	// As Debian's, but that it leaves the file systems in place.
	write(filepath.Join(dir, "poweroff.target"), "[Unit]\nDefaultDependencies=no\nRequires=poweroff.service\n")
	write(filepath.Join(dir, "poweroff.service"), "[Unit]\nDefaultDependencies=no\nRequires=shutdown.target\nAfter=shutdown.target\n"+
		"SuccessAction=poweroff-force\n[Service]\nType=oneshot\nExecStart=true\n")
	for _, name := range []string{"cron.service", "dbus.service", "dbus.socket"} {
		unit, err := os.ReadFile("/usr/lib/systemd/system/" + name)
		fatal(err)
		write(filepath.Join(dir, name), string(unit))
	}
}

func write(name, text string) {
	fatal(os.MkdirAll(filepath.Dir(name), 0o755))
	fatal(os.WriteFile(name, []byte(text), 0o644))
}

// loopback brings the machine's only interface up.
func loopback() {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	fatal(err)
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	fatal(err)
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	fatal(unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo))
}

package hostd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/testns"
)

// Tests with the real engine run as root.
const (
	runscVariable = "BERTH_TEST_RUNSC" // path of the runsc build
	agentVariable = "BERTH_TEST_AGENT" // path of the agent's binary
	layerVariable = "BERTH_TEST_LAYER" // path of an EROFS image with a small Debian
	hostdVariable = "BERTH_TEST_HOSTD" // path of this version's hostd; built if unset
)

const (
	sharedPrefix = "hostd-shared-"
	configName   = "config.json"
)

var sharedDir string

// Daemon numbers start at random, which hardly collides with other test runs.
var daemons atomic.Uint32

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == HoldCommand {
		exitWith(Hold())
	}
	if dir := os.Getenv(pinVariable); dir != "" {
		exitWith(pinInFreshNamespace(dir))
	}
	daemons.Store(rand.Uint32())
	if os.Getuid() != 0 {
		os.Exit(m.Run())
	}
	testns.TakeDown = takeDown
	testns.Finish = removeTogether
	os.Exit(testns.Run(m, 0, makeSharedDir))
}

func removeTogether() (failed error) {
	if together.running == nil {
		return nil
	}
	for _, wrong := range together.remove() {
		failed = errors.Join(failed, errors.New(wrong))
	}
	return failed
}

func makeSharedDir() (err error) {
	sharedDir, err = os.MkdirTemp("", sharedPrefix)
	return err
}

func takeDown(folder string) (failed error) {
	binary := os.Getenv(hostdVariable)
	if built, _ := filepath.Glob(filepath.Join(folder, sharedPrefix+"*", "hostd")); len(built) > 0 {
		binary = built[0]
	}
	configs, _ := filepath.Glob(filepath.Join(folder, "hostd-*", configName))
	for _, config := range configs {
		if output, err := exec.Command(binary, "clean", "--config", config).CombinedOutput(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("hostd clean --config %s: %w: %s", config, err, output))
		}
	}
	return failed
}

var hostdBinary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(hostdVariable); given != "" && len(buildFlags) == 0 {
		return given, nil
	}
	binary := filepath.Join(sharedDir, "hostd")
	args := append(append([]string{"build", "-trimpath", "-buildvcs=false"}, buildFlags...), "-o", binary, "github.com/berth-dev/berth/machine/cmd/hostd")
	output, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return binary, nil
})

const verifiedName = "verified.json"

// All daemons share one image, and the record that hostd has verified it.
var sharedLayer = sync.OnceValues(func() (digest string, err error) {
	if digest, err = copyLayer(os.Getenv(layerVariable), sharedDir); err != nil {
		return "", err
	}
	point, err := layers.Open(sharedDir).Mount(digest)
	if err != nil {
		return "", err
	}
	return digest, unix.Unmount(point, 0)
})

func copyLayer(image, dir string) (digest string, err error) {
	sum, err := exec.Command("sha256sum", image).Output()
	if err != nil {
		return "", err
	}
	digest = string(sum[:64])
	return digest, exec.Command("cp", "--reflink=auto", "-L", image, layerPath(dir, digest)).Run()
}

func layerPath(dir, digest string) string { return filepath.Join(dir, digest+".erofs") }

// A hard link would change the image's ctime, and every daemon would verify it again.
func (d *daemon) addSharedLayer() (digest string) {
	d.t.Helper()
	digest, err := sharedLayer()
	must(d.t, err)
	dir := d.dir + "/layers"
	must(d.t, os.Mkdir(dir, 0o755))
	note, err := os.ReadFile(filepath.Join(sharedDir, verifiedName))
	must(d.t, err)
	must(d.t, os.WriteFile(filepath.Join(dir, verifiedName), note, 0o600))
	path := layerPath(dir, digest)
	must(d.t, os.WriteFile(path, nil, 0o600))
	must(d.t, unix.Mount(layerPath(sharedDir, digest), path, "", unix.MS_BIND, ""))
	must(d.t, unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return digest
}

func (d *running) removeSharedLayer() error {
	return unix.Unmount(layerPath(d.dir+"/layers", d.layer), 0)
}

// Tests of this hostd neither end it nor look at other tests' objects.
var together struct {
	once sync.Once
	*running
	answers bool
}

// Starting and removing a hostd takes longer than most tests.
func withOthers(t *testing.T) *daemon {
	t.Helper()
	testns.Needs(t, runscVariable, agentVariable, layerVariable)
	t.Parallel()
	together.once.Do(func() {
		d := makeDaemon(t, func(config map[string]any) {
			config["capacity"] = map[string]any{"cpu_millis": 32000, "memory_mib": 8192}
			config["pool"].(map[string]any)["size_bytes"] = 16 << 30
		})
		together.running = d.running
		d.start()
		together.answers = true
	})
	if !together.answers {
		t.Fatal("the hostd that tests share did not start")
	}
	d := &daemon{t: t, running: together.running, owners: map[string]bool{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("hostd's log ends:\n%s", d.logTail())
		}
		for owner := range d.owners {
			d.deleteWorkspace(owner)
		}
	})
	return d
}

func (d *daemon) addLayer(image string) (digest string) {
	d.t.Helper()
	digest, err := copyLayer(image, d.dir+"/layers")
	must(d.t, err)
	return digest
}

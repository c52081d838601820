package hostd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// processor describes the CPU features that programs can detect. Guest programs use them still after a restore, so a
// checkpoint needs all of its features. Additional features do no harm.
type processor struct {
	features []string // sorted; includes the vendor, because the layout of saved CPU state differs between vendors
	flags    string   // hash of all flags in /proc/cpuinfo, for manifests of older releases
}

// These features do not change which instructions a program can execute. They concern kernel, hypervisor, mitigations
// or speed, and change with microcode and kernels. So they are ignored.
var notForPrograms = []string{
	"AVXSLOW", "BHI_", "CMPSB_", "CPBOOST", "CPPC", "EFER_", "ERMS", "FLUSH_", "FP128", "FP256", "FRED", "FSRM", "HRESET", "HTT", "HWA", "HYBRID_",
	"HYPERVISOR", "IA32_", "IBPB", "IBRS", "IBS", "IDPRED_", "INT_WBINVD", "INVLPGB", "LBRVIRT", "MCAOVERFLOW", "MCDT_", "MD_CLEAR", "MOVSB_", "MOVU",
	"MSR", "NRIPS", "NX", "PCONFIG", "PMU_", "PPIN", "PSFD", "RRSBA_", "RTM_ALWAYS_ABORT", "SBPB", "SEV", "SME", "SPEC_", "SRBDS_", "SRSO_", "STIBP",
	"STOSB_", "SUCCOR", "SVM", "TDX_", "TLB_", "TME", "TOPEXT", "TSA_", "TSCRATEMSR", "VMCBCLEAN", "VMPL", "VMSA_", "VMX", "VTE", "WRMSRNS",
}

func thisProcessor() (processor, error) {
	flags, err := kernelFlags()
	if err != nil {
		return processor{}, err
	}
	features := []string{"vendor:" + cpuid.CPU.VendorString}
	for _, feature := range cpuid.CPU.FeatureSet() {
		if !slices.ContainsFunc(notForPrograms, func(prefix string) bool { return strings.HasPrefix(feature, prefix) }) {
			features = append(features, feature)
		}
	}
	slices.Sort(features)
	return processor{features: features, flags: flags}, nil
}

func (p processor) has(m manifest) bool {
	if len(m.Processor) == 0 {
		return m.CPUFeatures == p.flags
	}
	return len(p.lacks(m.Processor)) == 0
}

func (p processor) lacks(needed []string) []string {
	return slices.DeleteFunc(slices.Clone(needed), func(feature string) bool {
		_, found := slices.BinarySearch(p.features, feature)
		return found
	})
}

func kernelFlags() (string, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "flags", "Features":
			flags := strings.Fields(value)
			slices.Sort(flags)
			sum := sha256.Sum256([]byte(strings.Join(flags, " ")))
			return hex.EncodeToString(sum[:]), nil
		}
	}
	return "", errors.New("/proc/cpuinfo names no features")
}

//! The campaigns, as cargo's arguments.

/// One campaign, and its size in each tier.
pub(crate) struct Campaign {
    pub(crate) name: &'static str,
    /// `{seed}` is the first seed.
    pub(crate) command: &'static str,
    pub(crate) ci: &'static str,
    pub(crate) soak: &'static str,
    /// How many seeds a round of a soak uses up.
    pub(crate) seeds_per_round: u64,
}

/// In the order in which they run: the cheap and telling ones first.
pub(crate) const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "crash",
        command: "run -q -p siltstone-sim --bin ground -- crash --seed {seed}",
        ci: "--workloads 72",
        soak: "--workloads 180 --cuts 16",
        seeds_per_round: 180,
    },
    Campaign {
        name: "mutants",
        command: "run -q -p siltstone-sim --bin ground -- mutants --seed {seed}",
        ci: "",
        soak: "",
        seeds_per_round: 36,
    },
    Campaign {
        name: "cloud",
        command: "run -q -p siltstone-sim --bin ground -- cloud --seed {seed}",
        ci: "",
        soak: "--worlds 5000",
        seeds_per_round: 5000,
    },
    Campaign {
        name: "cloud-mutants",
        command: "run -q -p siltstone-sim --bin ground -- cloud-mutants --seed {seed}",
        ci: "",
        soak: "",
        seeds_per_round: 200,
    },
    Campaign {
        name: "corrupt",
        command: "run -q -p siltstone-sim --bin ground -- corrupt --seed {seed}",
        ci: "",
        soak: "",
        seeds_per_round: 1,
    },
    Campaign {
        name: "differential",
        command: "run -q -p siltstone-sim --bin ground -- differential --seed {seed}",
        ci: "",
        soak: "--operations 7200000",
        seeds_per_round: 20,
    },
    Campaign {
        name: "rivals",
        command: "run -q -p siltstone-interop --bin rivals -- --seed {seed}",
        ci: "",
        soak: "--operations 1200000",
        seeds_per_round: 200,
    },
    Campaign {
        name: "faults",
        command: "run -q -p siltstone-sim --bin ground -- faults --seed {seed}",
        ci: "",
        soak: "--chances 5000",
        seeds_per_round: 1,
    },
    Campaign {
        name: "fuzz",
        command: "xtask fuzz --seed {seed}",
        ci: "--seconds 60 --jobs 2",
        soak: "--seconds 300 --jobs 2",
        seeds_per_round: 1,
    },
    Campaign {
        name: "kill",
        command: "run -q -p siltstone-interop --bin survive -- kill --seed {seed}",
        ci: "--cycles 500",
        soak: "--cycles 2000",
        seeds_per_round: 1,
    },
    Campaign {
        name: "full",
        command: "run -q -p siltstone-interop --bin survive -- full --seed {seed}",
        ci: "--rounds 5",
        soak: "--rounds 20",
        seeds_per_round: 1,
    },
    Campaign {
        name: "power-ext4",
        command: "run -q -p siltstone-interop --bin survive -- power --fs ext4 --engine siltstone --seed {seed}",
        ci: "--cycles 10",
        soak: "--cycles 100",
        seeds_per_round: 1,
    },
    Campaign {
        name: "power-xfs",
        command: "run -q -p siltstone-interop --bin survive -- power --fs xfs --engine siltstone --seed {seed}",
        ci: "--cycles 10",
        soak: "--cycles 100",
        seeds_per_round: 1,
    },
    Campaign {
        name: "power-ext4-leveldb",
        command: "run -q -p siltstone-interop --bin survive -- power --fs ext4 --engine leveldb --seed {seed}",
        ci: "--cycles 10",
        soak: "--cycles 100",
        seeds_per_round: 1,
    },
    Campaign {
        name: "power-xfs-leveldb",
        command: "run -q -p siltstone-interop --bin survive -- power --fs xfs --engine leveldb --seed {seed}",
        ci: "--cycles 10",
        soak: "--cycles 100",
        seeds_per_round: 1,
    },
    Campaign {
        name: "shuttle",
        command: "xtask shuttle --seed {seed}",
        ci: "--schedules 100000",
        soak: "--schedules 400000",
        seeds_per_round: 50_000,
    },
    Campaign {
        name: "linear",
        command: "run -q -p siltstone-sim --bin ground -- linear --seed {seed}",
        ci: "--histories 200",
        soak: "--histories 1000",
        seeds_per_round: 1000,
    },
    Campaign { name: "loom", command: "xtask loom", ci: "", soak: "", seeds_per_round: 1 },
];

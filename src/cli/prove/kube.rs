//! The Kubernetes releases whose CEL environment a proof may assume.

use clap::ValueEnum;

use kyvtest_cel::profile::Profile;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(in crate::cli) enum Kube {
    #[value(name = "1.34")]
    V34,
    #[value(name = "1.35")]
    V35,
    #[default]
    #[value(name = "1.36")]
    V36,
    #[value(name = "1.37")]
    V37,
}

impl Kube {
    pub(super) fn profile(self) -> &'static Profile {
        let name = match self {
            Self::V34 => "k8s-1.34",
            Self::V35 => "k8s-1.35",
            Self::V36 => "k8s-1.36",
            Self::V37 => "k8s-1.37",
        };
        Profile::named(name).unwrap_or(Profile::kubernetes())
    }
}

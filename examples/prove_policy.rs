//! Proves that a policy and the native policy that Kyverno generates from it decide alike, or prints where they do not.
//!
//! `cargo run --example prove_policy -- examples/seccomp/before/policy.yaml`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example shows its result")]

use std::{error::Error, fs};

use kyvtest::{
    Policy,
    convert::Exceptions,
    diagnostic::{Sources, render},
    kube::Discovery,
    prove::{self, Options},
};

fn main() -> Result<(), Box<dyn Error>> {
    for path in std::env::args().skip(1) {
        let text = fs::read_to_string(&path)?;
        let mut sources = Sources::new();
        let file = sources.add(path.as_str(), text.as_str());
        let policy = match Policy::parse(&text, file) {
            Ok(policy) => policy,
            Err(problems) => {
                for problem in &problems {
                    eprint!("{}", render::full(problem, &sources, false));
                }
                continue;
            }
        };
        let proof = prove::prove(
            &policy,
            Exceptions::default(),
            None,
            &Discovery::kubernetes(),
            &Options::default(),
        );
        println!(
            "{} {}: {} {}",
            policy.kind(),
            policy.name(),
            proof.label.as_str(),
            proof.reason
        );
        for region in &proof.regions {
            println!("  {}: {}", region.class.as_str(), region.text);
        }
    }
    Ok(())
}

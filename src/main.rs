//! The `kyvtest` binary: passes its arguments to [`kyvtest::cli`] and exits with the returned code.

use std::process::ExitCode;

fn main() -> ExitCode {
    kyvtest::cli::main(std::env::args_os())
}

//! The `kyvtest` binary: hands its arguments to [`kyvtest::cli`] and exits with the code that comes back.

use std::process::ExitCode;

fn main() -> ExitCode {
    kyvtest::cli::main(std::env::args_os())
}

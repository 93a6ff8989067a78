//! Runs the suites below a directory and prints a line for each case.
//!
//! `cargo run --example run_suites -- suites/`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::process::ExitCode;

use kyvtest::{
    run::{self, Clock, Event, Execution, Order, Plan, Selection, Settings, overrides::Overrides},
    suite::{Disk, Options},
};

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let settings = Settings::new(false);
    let options = Options::in_cluster(&settings.discovery);
    let selection = Selection::default();
    let plan = Plan::new(&Disk, &paths, &options, &selection);
    let execution = Execution {
        settings: &settings,
        options: &options,
        selection: &selection,
        overrides: &Overrides::default(),
        clock: &Clock::start(None),
        threads: 1,
        order: Order::Sorted,
        record_files: false,
    };
    let mut print = |event: &Event<'_>| {
        if let Event::Suite(suite) = event {
            for case in &suite.run.cases {
                println!("{:11} {} :: {}", case.outcome.as_str(), suite.run.path, case.title());
            }
        }
    };
    let executed = run::execute(&plan, execution, &mut print);
    let has_failed = executed.runs.iter().any(|suite| suite.problems() > 0);
    ExitCode::from(u8::from(has_failed))
}

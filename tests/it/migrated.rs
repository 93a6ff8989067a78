//! Policies before and after: what a person reads. `after.yaml` begins with the label of each rule.
//!
//! Set `KYVTEST_WRITE_FIXTURES=1` to write the results, and read the difference before you keep it.

use std::{fmt::Write as _, fs, path::Path};

use kyvtest_go_compat::{diagnostic::Sources, value::Document, yaml};
use kyvtest_migrate::{Options, RuleLabel, migrate, migrate_cleanup};
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Purpose},
};

fn migrated(text: &str) -> String {
    let mut loaded = Loaded::default();
    let file = Sources::new().add("before.yaml", text);
    let stream = yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default());
    policy::load(stream, file, Purpose::Policies, &mut loaded);
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    let mut emitter = yaml::emit::Emitter::new();
    let mut labels = String::new();
    let (discovery, options) = (Discovery::kubernetes(), Options::default());
    let classic = loaded.classic().map(|policy| migrate(policy, &discovery, &options));
    let cleanup = loaded.cleanup();
    let cleanup = cleanup.map(|policy| migrate_cleanup(policy, &discovery, &options));
    for migration in classic.chain(cleanup) {
        for rule in &migration.rules {
            let label = match &rule.label {
                RuleLabel::NotMigrated(code) => format!("NOT-MIGRATED({}), {}", code.as_str(), rule.reason),
                label => label.as_str().to_owned(),
            };
            let _ = writeln!(labels, "# {}: {label}", rule.name);
            for note in &rule.notes {
                let _ = writeln!(labels, "#   {note}");
            }
        }
        for object in migration.objects() {
            emitter.document();
            Document::from(object).root().emit(&mut emitter);
        }
    }
    format!("{labels}{}", emitter.finish())
}

#[test]
fn policies_before_and_after() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/migrate");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("the fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("before.yaml").exists())
        .collect();
    names.sort();
    let mut changed = Vec::new();
    for name in names {
        let before = fs::read_to_string(name.join("before.yaml")).expect("a policy");
        let after = migrated(&before);
        let path = name.join("after.yaml");
        if std::env::var_os("KYVTEST_WRITE_FIXTURES").is_some() {
            fs::write(&path, &after).expect("a fixture is written");
        } else if fs::read_to_string(&path).unwrap_or_default() != after {
            changed.push(format!("{}:\n{after}", path.display()));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}

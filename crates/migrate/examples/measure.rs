#![allow(clippy::all, clippy::pedantic, clippy::print_stdout)]
use kyvtest_go_compat::{diagnostic::Sources, value::Document, yaml};
use kyvtest_migrate::*;
use kyvtest_model::{
    kube::Discovery,
    policy::{self, Loaded, Purpose},
};
use std::{collections::BTreeMap, path::*, time::Instant};
fn walk(p: &Path, out: &mut Vec<PathBuf>) {
    if p.is_dir() {
        let mut e: Vec<_> = std::fs::read_dir(p).unwrap().map(|e| e.unwrap().path()).collect();
        e.sort();
        for e in e {
            walk(&e, out);
        }
    } else if p.extension().is_some_and(|e| e == "yaml" || e == "yml") {
        out.push(p.to_owned());
    }
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let show = args.iter().any(|a| a == "-y");
    let mut files = Vec::new();
    for a in args.iter().filter(|a| !a.starts_with('-')) {
        walk(Path::new(a), &mut files);
    }
    let discovery = Discovery::kubernetes().clone();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut slow = Vec::new();
    for file in files {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        if !text.contains("kyverno.io/") {
            continue;
        }
        let mut loaded = Loaded::default();
        let mut sources = Sources::new();
        let id = sources.add(file.display().to_string(), text.as_str());
        policy::load(
            yaml::read(text.as_bytes(), yaml::Mode::Lax, &yaml::Limits::default()),
            id,
            Purpose::Policies,
            &mut loaded,
        );
        for p in &loaded.policies {
            let validate = p
                .spec
                .rules
                .iter()
                .filter(|r| r.validate.as_ref().is_some_and(|v| v.manifests.is_none()))
                .count();
            if validate == 0 {
                continue;
            }
            let key = p.spec.source.document().root().to_json();
            if !seen.insert((p.metadata.name.value.clone(), key)) {
                continue;
            }
            let start = Instant::now();
            let m = migrate(p, &discovery, &{
                let mut o = Options::default();
                if let Ok(t) = std::env::var("TRIES") {
                    o.proof.tries = t.parse().unwrap();
                }
                o
            });
            let took = start.elapsed();
            slow.push((took, p.metadata.name.value.clone()));
            for (r, s) in m.rules.iter().zip(&p.spec.rules) {
                if !s.validate.as_ref().is_some_and(|v| v.manifests.is_none()) {
                    continue;
                }
                let v = s.validate.as_ref().unwrap();
                let kind = if v.cel.is_some() {
                    "cel"
                } else if v.pattern.is_some() {
                    "pattern"
                } else if v.any_pattern.is_some() {
                    "anyPattern"
                } else if v.deny.is_some() {
                    "deny"
                } else if v.foreach.is_some() {
                    "foreach"
                } else if v.pod_security.is_some() {
                    "pss"
                } else {
                    "other"
                };
                let l = match r.label.code() {
                    Some(c) => format!("NOT-MIGRATED({c})"),
                    None => r.label.as_str().to_owned(),
                };
                *counts.entry(l.clone()).or_default() += 1;
                *counts.entry(format!("  {kind} {l}")).or_default() += 1;
                *counts.entry("ALL".into()).or_default() += 1;
                println!(
                    "{l} {kind} {}/{} {:?} :: {} [{}]",
                    p.metadata.name.value,
                    r.name,
                    took,
                    r.reason,
                    file.display()
                );
                if let Some(c) = &r.counterexample {
                    let q = &c.situation().request;
                    let [a, b] = c.verdicts();
                    println!(
                        "    {} {} old={} new={}",
                        q.operation.as_str(),
                        q.resource.name(),
                        a.effect,
                        b.effect
                    );
                    println!("    object={}", q.object.root().to_json());
                    if !q.old_object.root().is_null() {
                        println!("    oldObject={}", q.old_object.root().to_json());
                    }
                }
                if show {
                    for o in r.objects.iter().chain(&r.rejected) {
                        println!("---\n{}", Document::from(o).root().to_yaml());
                    }
                }
            }
        }
    }
    slow.sort();
    for (t, n) in slow.iter().rev().take(8) {
        println!("slow {t:?} {n}");
    }
    for (k, v) in counts {
        println!("{v:5} {k}");
    }
}

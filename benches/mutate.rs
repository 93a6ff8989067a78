//! One mutation of a typical pod: a mutate rule, a MutatingPolicy, a MutatingAdmissionPolicy.
//!
//! `cargo bench --bench mutate`. Policies and object are in `fixtures/bench/mutate.yaml`.

use std::sync::Arc;

use divan::Bencher;
use kyvtest::{
    diagnostic::Sources,
    kube::{Cluster, Discovery, Operation, Request},
    kyverno::{input::Input, lens::Lens, mutate::CompiledMutation, mutating_policy::CompiledMutatingPolicy},
    policy::{Loaded, Purpose, load},
    prove::server::Server,
    value::Document,
    vap, yaml,
};

fn main() {
    divan::main();
}

/// The policies of the fixture, and the request that creates its pod.
fn fixture() -> (Loaded, Request, Cluster) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bench/mutate.yaml");
    let text = std::fs::read_to_string(path).expect("the fixture");
    let (pod, policies) = text.split_once("\n---\n").expect("a pod and policies");
    let mut sources = Sources::new();
    let file = sources.add("mutate.yaml", policies);
    let mut loaded = Loaded::default();
    let stream = yaml::read(policies, yaml::Mode::Lax, &yaml::Limits::default());
    load(stream, file, Purpose::Policies, &mut loaded);
    let pod = yaml::read_first(pod, yaml::Mode::Lax, &yaml::Limits::default()).expect("a pod");
    let discovery = Discovery::kubernetes();
    let served = discovery.by_object("v1", "Pod").cloned().expect("pods are served");
    let mut request = Request::about(Operation::Create, served, Document::from(pod.root()));
    Server::new(&discovery, Vec::new())
        .prepare(&mut request)
        .expect("a valid pod");
    (loaded, request, Cluster::new(discovery))
}

#[divan::bench]
fn mutate_rule(bencher: Bencher<'_, '_>) {
    let (loaded, request, cluster) = fixture();
    let policy: &Arc<_> = loaded.classic().next().expect("a ClusterPolicy");
    let compiled = CompiledMutation::new(policy).expect("a mutate rule");
    let environment = cluster.environment();
    bencher.bench_local(|| {
        let input = Input::new(&request, environment.world, environment.discovery, Lens::CLUSTER);
        compiled.evaluate(&input, &[], None, environment.host)
    });
}

#[divan::bench]
fn mutating_policy(bencher: Bencher<'_, '_>) {
    let (loaded, request, cluster) = fixture();
    let policy = loaded.mutating().next().expect("a MutatingPolicy");
    let compiled = CompiledMutatingPolicy::compile(policy, []).expect("expressions that compile");
    let environment = cluster.environment();
    bencher.bench_local(|| {
        let input = Input::new(&request, environment.world, environment.discovery, Lens::CLUSTER);
        compiled.evaluate(&input, &request.object, environment.host)
    });
}

#[divan::bench]
fn mutating_admission_policy(bencher: Bencher<'_, '_>) {
    let (loaded, request, cluster) = fixture();
    let policies = loaded.native_mutating().map(|policy| &**policy);
    let bindings = loaded.mutating_bindings.iter().map(|binding| &**binding);
    let native = vap::Server::new([], [], vap::Lens::ApiServer).with_mutation(policies, bindings);
    let environment = cluster.environment();
    let server = Server::new(environment.discovery, Vec::new());
    bencher.bench_local(|| native.mutate(&request, environment, server.cluster()));
}

//! A merge or patch of a typical pod.

use divan::{Bencher, black_box};
use kyvtest_go_compat::value::Document;
use kyvtest_patch::{
    json6902::{self, Operation, Options, Patch},
    strategic,
    structured::{self, Atomics, Schema},
};

fn main() {
    divan::main();
}

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web","team":"a"},"name":"web","namespace":"shop"},
"spec":{"containers":[
{"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],"image":"nginx:1.25","imagePullPolicy":"IfNotPresent","name":"web",
"ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"terminationMessagePath":"/dev/termination-log",
"volumeMounts":[{"mountPath":"/data","name":"data"}]},
{"image":"envoy:v1","imagePullPolicy":"IfNotPresent","name":"proxy","ports":[{"containerPort":15001,"protocol":"TCP"}],"securityContext":{"runAsUser":1337}}],
"dnsPolicy":"ClusterFirst","restartPolicy":"Always","serviceAccountName":"web","terminationGracePeriodSeconds":30,
"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}],
"volumes":[{"emptyDir":{},"name":"data"}]}}"#;

fn document(text: &str) -> Document {
    Document::from_json(text).expect("valid JSON")
}

#[divan::bench]
fn strategic_label(bencher: Bencher<'_, '_>) {
    let (pod, patch) = (document(POD), document(r#"{"metadata":{"labels":{"+(env)":"prod"}}}"#));
    bencher.bench(|| strategic::merge(black_box(pod.root()), black_box(patch.root())));
}

#[divan::bench]
fn strategic_anchored_containers(bencher: Bencher<'_, '_>) {
    let patch = r#"{"spec":{"containers":[{"(image)":"*:*","imagePullPolicy":"Always","securityContext":{"+(runAsNonRoot)":true}}]}}"#;
    let (pod, patch) = (document(POD), document(patch));
    bencher.bench(|| strategic::merge(black_box(pod.root()), black_box(patch.root())));
}

#[divan::bench]
fn json_text(bencher: Bencher<'_, '_>) {
    let pod = document(POD);
    let patch = "- op: add\n  path: /metadata/annotations/a\n  value: b\n- op: replace\n  path: /spec/dnsPolicy\n  value: None\n";
    bencher.bench(|| json6902::apply_text(black_box(pod.root()), black_box(patch)));
}

#[divan::bench]
fn json_operations(bencher: Bencher<'_, '_>) {
    let (pod, value) = (document(POD), document(r#""b""#));
    bencher.bench(|| {
        let operation = Operation {
            op: "add",
            path: "/metadata/labels/a",
            from: "",
            value: Some(value.root()),
        };
        Patch::from_operations([operation]).apply(black_box(pod.root()), &Options::v4())
    });
}

#[divan::bench]
fn structured_containers(bencher: Bencher<'_, '_>) {
    let config = r#"{"metadata":{"labels":{"env":"prod"}},"spec":{"containers":[{"name":"web","env":[{"name":"C","value":"3"}]},{"name":"new","image":"x"}]}}"#;
    let (pod, config) = (document(POD), document(config));
    let ty = Schema::builtin().kind("v1", "Pod").expect("a built-in kind");
    let config = config.root().into();
    bencher.bench(|| structured::apply(ty, black_box(pod.root()), black_box(&config), Atomics::Reject));
}

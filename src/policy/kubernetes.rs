//! A NetworkPolicy: training pods talk among themselves on every port, others reach them on the remaining ports alone.

use std::fmt::Write as _;

use super::head::comment;
use super::product::Product;
use super::scope::Scope;

/// The label that training pods have to carry.
const LABEL: &str = "rdzvscope.io/rendezvous: \"protected\"";

/// One object, for `kubectl apply -f`.
pub(super) fn network_policy(scope: &Scope) -> String {
    let mut out = comment(
        "#",
        Product::Kubernetes,
        scope,
        &[
            "for pods with the label below, what no rule allows is dropped: other TCP ports stay open to all, other protocols \
are named. It holds where the network plugin enforces NetworkPolicy and knows endPort (Kubernetes 1.25).",
            "pods with hostNetwork are not covered: their ports are the node's (policy nftables). Traffic that a node itself \
sends, kubelet's probes for example, is let through by most plugins.",
        ],
    );
    let _ = writeln!(
        out,
        "# Use: label the pods of training jobs {LABEL}, then kubectl apply -f {}",
        Product::Kubernetes.file()
    );
    let _ = write!(
        out,
        "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: rdzvscope-rendezvous
  annotations:
    rdzvscope.io/made: \"{}\"
spec:
  podSelector:
    matchLabels:
      {LABEL}
  policyTypes:
    - Ingress
  ingress:
    - from:
        - podSelector:
            matchLabels:
              {LABEL}
    - ports:
",
        scope.date
    );
    for (from, to) in scope.all_ports().complement().ranges() {
        let _ = writeln!(out, "        - protocol: TCP\n          port: {from}");
        if to != from {
            let _ = writeln!(out, "          endPort: {to}");
        }
    }
    for protocol in ["UDP", "SCTP"] {
        let _ = writeln!(out, "        - protocol: {protocol}");
    }
    out
}

//! Tests of the whole program: real clients send requests through the built binary to the embedded API server and to a real one.
//!
//! `make e2e` runs the tests. `harness/` starts the programs and has their clients; every other file covers one subject.

// In a test binary, `pub` marks what modules share.
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used)]

mod harness;

mod aggregated;
mod apply;
mod audit;
mod audit_backends;
mod authentication;
mod authorization;
mod behind;
mod bypass;
mod caches;
mod cbor;
mod certificates;
mod check;
mod clients;
mod collections;
mod custom_resources;
mod data_dir;
mod deletes;
mod doctor;
mod differential;
mod documentation;
mod drop_in;
mod embedded_aggregation;
mod embedded_apply;
mod embedded_definitions;
mod embedded_rbac;
mod embedded_registration;
mod embedded_requests;
mod embedded_service;
mod embedded_strategies;
mod embedded_validation;
mod emulated_release;
mod odd_writes;
mod off_by_default;
mod expressions;
mod foreign_webhook;
mod front_end;
mod guard;
mod hostile;
mod in_cluster_clients;
mod inside;
mod kinds;
mod kubectl;
mod lightweight;
mod lifecycle;
mod manifests;
mod metrics;
mod newer_release;
mod newer_server;
mod older_server;
mod pod_security_levels;
mod policy_files;
mod policy_operations;
mod plugins;
mod policies;
mod policy_library;
mod public_charts;
mod races;
mod removed_plugins;
mod reloading;
mod sidecar;
mod soak;
mod subresources;
mod tenants;
mod upgrades;
mod versions;
mod warnings;
mod webhook_answers;
mod webhook_client;
mod webhooks;

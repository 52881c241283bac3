//! Kubernetes admission control outside kube-apiserver.
//!
//! A reverse proxy in front of an API server: it authenticates, admits every mutating request with the admission
//! plugins of Kubernetes, and forwards accepted requests. `ARCHITECTURE.md` is the map.

#![deny(clippy::indexing_slicing)]

pub use kubernetes_cel as cel;
pub use kubernetes_object as object;
pub use kubernetes_object::{go_text, kind, names, status};

pub mod user;
pub mod sharer;
pub mod crowd;
pub mod body;
pub mod arrivals;
mod answers;
mod derived;
mod removed;
mod initializers;
pub mod x509;
pub mod metrics;
pub mod shares;
pub mod processor;
pub mod turns;

pub mod cli;
pub mod app;
pub mod config;

pub mod server;
pub mod front_end;
pub mod pipeline;
pub mod request;
pub mod authn;
pub mod authz;
pub mod impersonation;
pub mod upstream;
pub mod response;

pub mod admission;
pub mod tenants;
pub mod plugins;
pub mod backend;
pub mod manifests;
pub mod webhooks;
pub mod policies;
pub mod conversion;
pub mod matching;
pub mod expressions;

pub mod cluster;
pub mod audit;

pub mod embedded;

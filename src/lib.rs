//! Kubernetes admission control outside kube-apiserver.
//!
//! A reverse proxy in front of an API server: it authenticates, admits every mutating request with the admission
//! plugins of Kubernetes, and forwards what is accepted. `ARCHITECTURE.md` is the map.

pub mod kind;
pub mod user;
pub mod body;
pub mod go_text;
pub mod names;
mod answers;
mod derived;
pub mod metrics;
pub mod shares;
pub mod processor;

pub mod cel;
pub mod cli;
pub mod app;
pub mod config;

pub mod server;
pub mod pipeline;
pub mod request;
pub mod authn;
pub mod authz;
pub mod impersonation;
pub mod upstream;
pub mod response;
pub mod status;

pub mod admission;
pub mod plugins;
pub mod backend;
pub mod manifests;
pub mod webhooks;
pub mod policies;
pub mod conversion;
pub mod matching;
pub mod expressions;

pub mod object;
pub mod cluster;
pub mod audit;

pub mod embedded;

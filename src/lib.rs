//! Kubernetes admission control outside kube-apiserver.
//!
//! A reverse proxy in front of an API server: it authenticates, admits every mutating request with the admission
//! plugins of Kubernetes, and forwards accepted requests. `ARCHITECTURE.md` is the map.

#![deny(clippy::indexing_slicing)]

pub(crate) use kubernetes_cel as cel;
pub(crate) use kubernetes_object as object;
pub(crate) use kubernetes_object::{go_text, kind, names, status};

mod user;
mod sharer;
mod crowd;
mod body;
mod arrivals;
mod answers;
mod derived;
mod removed;
mod initializers;
mod x509;
mod metrics;
mod logging;
mod look;
mod shares;
mod processor;
mod turns;

mod cli;
mod app;
mod config;

mod server;
mod front_end;
mod pipeline;
mod request;
mod authn;
mod authz;
mod impersonation;
mod upstream;
mod response;

mod admission;
mod tenants;
mod plugins;
mod backend;
mod manifests;
mod webhooks;
mod policies;
mod conversion;
mod matching;
mod expressions;

mod cluster;
mod audit;

mod embedded;

/// The items that the binary, tests, benchmarks, fuzz targets and kube-test-server use. The module is no interface for others, and changes without
/// notice.
#[doc(hidden)]
pub mod internal {
    pub mod admission {
        pub use crate::admission::metrics::Metrics;
        pub use crate::admission::{Attributes, Chain, Operation, PluginEnvironment, RequestContext, Spec};
    }
    pub mod app {
        pub use crate::app::{Running, start};
    }
    pub mod authn {
        pub use crate::authn::{Authenticator, Config, Schemes};
    }
    pub mod authz {
        pub use crate::authz::{AccessReviews, Authorizer, Config, Mode, Reviewer};
    }
    pub mod body {
        pub use crate::body::{Body, Weight, empty, full};
    }
    pub mod cli {
        pub use crate::cli::{configuration, main};
    }
    pub mod cluster {
        pub use crate::cluster::discovery::Discovery;
        pub use crate::cluster::{Cluster, Namespace, Need};
    }
    pub mod config {
        pub use crate::config::{EmulatedRelease, FeatureGates, Limits, Upstream, Writes};
    }
    pub mod embedded {
        pub use crate::embedded::Server;
    }
    pub mod front_end {
        pub use crate::front_end::{FrontEnd, FrontEndMetrics, ReviewingTenants, Seats};
    }
    pub mod metrics {
        pub use crate::metrics::Registry;
    }
    pub mod pipeline {
        pub use crate::pipeline::{Known, Parts, Pipeline, Process};
    }
    pub mod plugins {
        pub use crate::plugins::ALL;
    }
    pub mod request {
        pub use crate::request::accept::{AnswerType, negotiate};
        pub use crate::request::body::{
            BodyForm, BodyRoom, MediaType, MediaTypes, OptionsKind, WriteOptions, decode_object, media_type,
        };
        pub use crate::request::{is_canonical, request_info, timeout};
    }
    pub mod server {
        pub use crate::server::{Connection, Drain};
    }
    pub mod tenants {
        pub use crate::tenants::{Members, Origin, Owners, TenantAddresses, read, split_path};
    }
    pub mod upstream {
        pub use crate::upstream::{
            CallerIdentity, Emulation, Forwarder, SharedTransport, Transport, UpstreamError, UpstreamRelease,
            kube_client,
        };
    }
    pub use crate::arrivals::Arrivals;
    pub use crate::audit::Audit;
    pub use crate::processor::Processor;
    pub use crate::sharer::Sharing;
    pub use crate::user::UserInfo;
}

//! The binary: nothing but the allocator and the exit code.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kube_admission_proxy::internal::cli::main()
}

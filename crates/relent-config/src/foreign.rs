//! The retry settings of other systems, read from those systems' own texts: what they say, exactly, and errors that
//! point at the line.
//!
//! - [`StateMachine`]: the `Retry` and `Catch` arrays of AWS Step Functions (Amazon States Language).
//! - [`ServiceConfig`]: gRPC's service config (gRFC A6).
//!
//! Neither is executed: they become values of `relent-core`, which decides.

mod grpc;
mod json;
mod step_functions;

pub use grpc::{GrpcCode, MethodConfig, ServiceConfig};
pub use step_functions::{Catcher, State, StateMachine};

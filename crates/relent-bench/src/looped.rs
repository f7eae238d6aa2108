//! Loops around futures.

use std::future::IntoFuture;
use std::hint::black_box;

use tokio::runtime::Runtime;
use tower::{Service, ServiceExt};

use crate::case::{Case, Table};

/// Makes loops around futures: inside one `block_on`, so that entering the runtime is not counted.
pub(crate) struct Looped {
    pub(crate) table: Table,
    pub(crate) runtime: &'static Runtime,
}

impl Looped {
    pub(crate) fn case<F: IntoFuture>(
        &self,
        name: &'static str,
        make: impl Fn() -> F + Copy + 'static,
    ) -> Case {
        let _inside = self.runtime.enter();
        let size = size_of_val(&make().into_future());
        Case::new(self.table, name, self.run(make)).future(size)
    }

    pub(crate) fn run<F: IntoFuture>(&self, make: impl Fn() -> F + 'static) -> impl FnMut(u64) + 'static {
        let runtime = self.runtime;
        move |calls| {
            runtime.block_on(async {
                for _ in 0..calls {
                    black_box(make().await);
                }
            });
        }
    }

    pub(crate) fn service<S: Service<()> + Clone + 'static>(&self, name: &'static str, service: S) -> Case {
        let size = size_of_val(&service.clone().call(()));
        Case::new(self.table, name, self.run_service(service)).future(size)
    }

    pub(crate) fn run_service<S: Service<()> + 'static>(&self, mut service: S) -> impl FnMut(u64) + 'static {
        let runtime = self.runtime;
        move |calls| {
            runtime.block_on(async {
                for _ in 0..calls {
                    let result = match service.ready().await {
                        Ok(ready) => ready.call(()).await,
                        Err(error) => Err(error),
                    };
                    drop(black_box(result));
                }
            });
        }
    }
}

//! Talking to origins.

mod body;
mod counters;
mod error;
mod message;

use std::{rc::Rc, sync::Arc};

pub use body::Body;
pub use counters::OriginCounters;
pub use error::OriginError;
pub use message::{BodyFrame, Interim, InterimHead, Request, RequestBody, Response};

use crate::settings::OriginSettings;

/// One origin, as one worker thread sees it.
#[derive(Debug)]
pub struct Origin {
    settings: Arc<OriginSettings>,
    counters: Arc<OriginCounters>,
}

impl Origin {
    /// An origin without connections.
    pub fn new(settings: Arc<OriginSettings>, counters: Arc<OriginCounters>) -> Rc<Origin> {
        Rc::new(Origin { settings, counters })
    }

    /// Sends one request and waits for the head of the final response.
    pub async fn send(self: &Rc<Self>, req: Request, interim: Option<Interim>) -> Result<Response, OriginError> {
        let _ = (&self.settings, req, interim);
        let error = OriginError::TooManyConnections;
        self.counters.count_failure(&error);
        counters::count(&self.counters.requests);
        Err(error)
    }
}

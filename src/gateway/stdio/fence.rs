//! A panic in a handler is answered as an internal error instead of leaving the client waiting for ever.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use rmcp::model::{ClientNotification, ClientRequest, ProtocolVersion, ServerConfig, ServerResult};
use rmcp::service::{NotificationContext, RequestContext, Service};
use rmcp::{ErrorData, RoleServer, ServerHandler};

/// A handler whose panics end nothing but the request that met them.
pub(super) struct Fenced<H>(pub(super) H);

impl<H: ServerHandler> Service<RoleServer> for Fenced<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let method = request.method().to_owned();
        // Boxed: the state of all methods together is tens of kilobytes, which the SDK would move about several times.
        let handled = Box::pin(Service::handle_request(&self.0, request, context));
        let handled = AssertUnwindSafe(handled).catch_unwind().await;
        handled.unwrap_or_else(|_| {
            tracing::error!("the handler of `{method}` panicked");
            let text = "Internal fault: the request was abandoned. Read the state of the rig before going on.";
            Err(ErrorData::internal_error(text, None))
        })
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let handled = Service::handle_notification(&self.0, notification, context);
        AssertUnwindSafe(handled).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!("the handler of a notification panicked");
            Ok(())
        })
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }
}

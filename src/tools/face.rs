//! The MCP server's handler: lists what this caller may call, checks, calls, and answers whatever happens.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::answer::{Outcome, ToolError};
use super::args::{Args, cut};
use super::book::Book;
use super::call::{Beat, Call, Core, RigPart};
use super::presence::{self, Present};
use super::record::Named;
use super::registry::{self, Need, Spec};
use super::seats::{Seated, Seats, Visit};
use super::turns::Turn;
use super::{elicit, prompts, stopping, words};
use crate::access::{self, Policy, Visitor};
use crate::config;
use crate::model::{Caller, Code, Moved, RigError, Way};

/// How long clients may keep the tool list.
const LIST_TTL_MS: u64 = 60_000;

/// What `initialize` and `server/discover` say about using this server.
const INSTRUCTIONS: &str = "steadyhand drives this lab's motion stages and cameras, and refuses what could do harm. \
Begin with describe_rig (axes, units, limits, which way is toward the sample), then get_state. Every motion names its \
unit; limits are refused, never clamped: check_move shows what is allowed without moving. A stage whose position isn't \
referenced must be homed first. move_by needs the state_epoch on which you decided (from get_state or the last answer). \
Errors read: [code] what happened. Moved: no|yes|unknown. Next: what to do; follow Next. A call that takes long answers \
status \"running\" with a job_id: call get_job. Status \"waiting_for_person\": tell the person at the rig what it asks; \
only they can say yes, and the job goes on by itself. stop works at any moment and needs nothing; after it, clear_fault \
releases the stage, unless a person stopped it. Positions from a `counter` prove nothing about a jam. Emergency stops, \
limit switches and laser interlocks are the hardware's: this server never replaces them; when unsure, ask the person at \
the rig.";

/// What a [`Face`] is made of.
pub struct Parts {
    /// The rig, or what is wrong with its file.
    pub rig: RigPart,
    /// What callers may do.
    pub policy: Policy,
    /// The client's own limit on a call: calls answer, or hand back a job, before it.
    pub request_timeout: Duration,
    /// Ends when the program begins to shut down.
    pub shutting_down: CancellationToken,
}

/// The tools as an MCP server. Clones share everything.
#[derive(Clone)]
pub struct Face(pub(super) Arc<Core>);

impl Face {
    /// The face of a rig. Must be called within a tokio runtime: a task follows the devices, so that the
    /// list of tools does.
    pub fn new(parts: Parts) -> Face {
        let (told, present) = watch::channel(Present::ALL);
        let rig = match &parts.rig {
            RigPart::Live(live) => {
                tokio::spawn(presence::follow(live.handle.clone(), told));
                Some(live.handle.rig().clone())
            }
            RigPart::Bad { .. } | RigPart::Closed { .. } => None,
        };
        // What was begun before a restart is not begun again.
        let book =
            parts.rig.live().map_or_else(|_| Book::default(), |live| Book::after(live.events.earlier_commands()));
        Face(Arc::new(Core {
            tools: Arc::new(registry::build(rig.as_deref())),
            rig: parts.rig,
            policy: parts.policy,
            request_timeout: parts.request_timeout,
            shutting_down: parts.shutting_down,
            present,
            book: Arc::new(book),
            buffers: Arc::default(),
            tally: Arc::default(),
            record: Arc::default(),
            seats: Seats::default(),
            seat: Arc::default(),
        }))
    }

    /// The face as one client's session sees it: with its own name in every order, under the stricter of the two
    /// policies, and with image buffers of its own. The seat is free again when what this gives back is dropped.
    pub fn visit(&self, visit: Visit) -> Seated {
        let core = &self.0;
        let seat = core.seats.take(visit.way, visit.pid);
        // Each command of a person's shell is a session of its own; they share their buffers.
        let buffers = match visit.way {
            Way::Cli => core.buffers.clone(),
            _ => Arc::default(),
        };
        let face = Face(Arc::new(Core {
            rig: core.rig.clone(),
            policy: Policy { read_only: core.policy.read_only || visit.read_only },
            request_timeout: visit.request_timeout.unwrap_or(core.request_timeout),
            shutting_down: visit.ending,
            tools: core.tools.clone(),
            present: core.present.clone(),
            book: core.book.clone(),
            buffers,
            tally: core.tally.clone(),
            record: core.record.clone(),
            seats: core.seats.clone(),
            seat: seat.seat().clone(),
        }));
        Seated { face, seat }
    }

    /// The names of the tools that are listed now, in their order.
    pub fn listed(&self) -> Vec<&'static str> {
        self.0.tools.iter().filter(|t| self.0.lists(t.spec)).map(|t| t.spec.name).collect()
    }

    /// Every example call of the listed tools: tool and arguments as JSON.
    pub fn examples(&self) -> Vec<(&'static str, &'static str)> {
        let listed = self.0.tools.iter().filter(|t| self.0.lists(t.spec));
        listed.flat_map(|t| t.spec.examples.iter().map(|e| (t.spec.name, *e))).collect()
    }

    fn me() -> Implementation {
        Implementation::new("steadyhand", env!("CARGO_PKG_VERSION"))
            .with_title("steadyhand")
            .with_description("Motion stages and cameras of a lab, with a steady hand.")
    }

    /// Runs a call of a known tool, up to its outcome.
    /// Arguments that this tool has not, and one other alone has: which, in a sentence each.
    fn elsewhere(&self, given: Option<&Map<String, Value>>, built: &registry::Built) -> Vec<String> {
        let has = |b: &registry::Built, key: &str| {
            b.input.get("properties").and_then(Value::as_object).is_some_and(|p| p.contains_key(key))
        };
        let unknown = given.into_iter().flat_map(Map::keys).filter(|key| !has(built, key));
        let hint = |key: &String| {
            let mut others = self.0.tools.iter().filter(|b| self.0.lists(b.spec) && has(b, key));
            let (Some(tool), None) = (others.next(), others.next()) else { return None };
            Some(format!("{key} is an argument of {}.", tool.spec.name))
        };
        unknown.filter_map(hint).collect()
    }

    async fn outcome(
        &self,
        spec: &'static Spec,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
        begun: Arc<AtomicBool>,
    ) -> Outcome {
        let core = &self.0;
        self.permitted(spec)?;
        let Some(built) = core.tools.iter().find(|t| t.spec.name == spec.name) else {
            return Err(ToolError::new(Code::Unsupported, format!("This rig has nothing for {}.", spec.name)));
        };
        let (state, replies) = (request.request_state, request.input_responses);
        let elsewhere = self.elsewhere(request.arguments.as_ref(), built);
        let args = Args::check(request.arguments, &built.input, core.rig());
        let args = match args {
            Err(e) if spec.name == "stop" => return Err(stopping::in_spite_of(core, e).await),
            Err(mut e) => {
                e.error.what.extend(elsewhere.iter().map(|hint| format!(" {hint}")));
                return Err(e);
            }
            Ok(args) => args,
        };
        let caller = self.caller(cx);
        core.seat.calls(&caller.client);
        let beat = cx.meta.get_progress_token().map(|token| Beat { peer: cx.peer.clone(), token });
        let user = (self.asks_users(cx) && !modern(cx)).then(|| cx.peer.clone());
        let call = Call {
            core: core.clone(),
            tool: spec.name,
            args,
            caller,
            id: cx.id.to_string(),
            gone: cx.ct.clone(),
            beat,
            user,
            begun,
            turn: self.turn(spec, cx).await?,
        };
        match state {
            Some(state) if self.asks_users(cx) => elicit::replied(&call, &state, replies.as_ref()).await,
            _ => (spec.run)(call).await,
        }
    }

    /// Whether this client's user may be asked for approvals.
    fn asks_users(&self, cx: &RequestContext<RoleServer>) -> bool {
        let counts = self.0.rig().is_some_and(|rig| rig.approvals.elicitation);
        counts && elicit::can_ask(cx, self.0.seat.way)
    }

    /// Who calls.
    fn caller(&self, cx: &RequestContext<RoleServer>) -> Caller {
        let seat = &self.0.seat;
        let visitor = cx.extensions.get::<http::request::Parts>().and_then(|p| p.extensions.get::<Visitor>());
        let told = cx.client_info();
        let told = told.as_ref().map(|c| (c.name.as_str(), c.version.as_str()));
        let client = match visitor {
            // The SDK names itself for a client whose handshake was on another connection.
            Some(visitor) if !modern(cx) => visitor.agent.as_deref().map(|agent| (agent, "")),
            _ => told,
        };
        access::caller(seat.id.clone(), seat.way, client)
    }

    /// Waits for the call's turn among those of its client. What only reads, and a stop, waits for nobody, and nobody
    /// for it.
    async fn turn(&self, spec: &Spec, cx: &RequestContext<RoleServer>) -> Result<Option<Turn>, ToolError> {
        let Some(turn) = cx.extensions.get::<Turn>() else { return Ok(None) };
        if spec.hints.read_only || spec.name == "stop" {
            turn.pass();
            return Ok(None);
        }
        tokio::select! {
            biased;
            () = cx.ct.cancelled() => Err(ToolError::new(Code::Cancelled, "The call was taken back.")),
            () = turn.comes() => Ok(Some(turn.clone())),
            () = self.0.shutting_down.cancelled() => {
                Err(ToolError::new(Code::ShuttingDown, "The server is shutting down."))
            }
        }
    }

    /// Judges again what the list has judged: a client may call what it was never shown.
    fn permitted(&self, spec: &Spec) -> Result<(), ToolError> {
        let Some(rig) = self.0.rig() else {
            if spec.need == Need::Nothing && spec.name == "diagnose" {
                return Ok(());
            }
            return self.0.rig.live().map(|_| ()).map_err(|error| match spec.name {
                "stop" => stopping::nothing_open(error),
                _ => error,
            });
        };
        if !spec.need.of(rig) {
            let what = format!("{} isn't available: {}.", spec.name, spec.need.lacking());
            return Err(ToolError::new(Code::Unsupported, what));
        }
        if !spec.granted(self.0.policy) {
            let what = format!("{} isn't permitted: this server was started to read only.", spec.name);
            return Err(ToolError::new(Code::NotPermitted, what));
        }
        Ok(())
    }

    /// What goes to the client, whatever the outcome is.
    fn result(&self, tool: &'static str, outcome: Outcome, device: Option<&str>) -> CallToolResult {
        let rig = self.0.rig_name();
        match outcome {
            Ok(answer) => answer.into_result(rig, |t| self.0.may(t, device)),
            Err(mut error) => {
                if error.error.code == Code::StorageFailed
                    && let RigPart::Live(live) = &self.0.rig
                    && let Some(why) = live.events.failing().filter(|w| !error.error.what.contains(w.as_str()))
                {
                    // Which file, and why not.
                    error.error.what = format!("{} {}", words::sentence(&error.error.what), words::sentence(&why));
                }
                let next = self.0.next(tool, &error, device);
                self.0.tally.count(tool, error.error.code);
                tracing::info!(tool, code = error.error.code.text(), what = %error.error.what, "refused or failed");
                let mut result = error.into_result(rig, &next);
                self.0.tell_epoch(tool, device, &mut result);
                result
            }
        }
    }
}

/// Answers for a call that panics. What it began is stopped, because its ticket is dropped with it.
async fn fence(tool: &str, call: impl Future<Output = Outcome>) -> Outcome {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(tool, "a tool panicked; its call is answered as an internal error");
        let what = format!("A fault in {tool} ended the call.");
        Err(RigError::new(Code::Internal, what).moved(Moved::Unknown).into())
    })
}

fn modern(cx: &RequestContext<RoleServer>) -> bool {
    cx.protocol_version().is_some_and(|v| v.as_str() >= "2026-07-28")
}

/// Modern results say who made them.
fn stamp(meta: &mut Option<rmcp::model::MetaObject>) {
    if let Ok(me) = serde_json::to_value(Face::me()) {
        meta.get_or_insert_default().insert("io.modelcontextprotocol/serverInfo".into(), me);
    }
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_prompts().build();
        ServerConfig::new(capabilities).with_server_info(Face::me()).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.and_then(|r| r.cursor).is_some_and(|c| !c.is_empty()) {
            return Err(ErrorData::invalid_params("unknown cursor: the list of tools has one page", None));
        }
        let listed = self.0.tools.iter().filter(|t| self.0.lists(t.spec));
        let mut result = ListToolsResult { tools: listed.map(|t| t.tool.clone()).collect(), ..Default::default() };
        if modern(&cx) {
            result = result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private);
            stamp(&mut result.meta);
        }
        Ok(result)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        cx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if request.and_then(|r| r.cursor).is_some_and(|c| !c.is_empty()) {
            return Err(ErrorData::invalid_params("unknown cursor: the list of prompts has one page", None));
        }
        let mut result = ListPromptsResult { prompts: prompts::all(), ..Default::default() };
        if modern(&cx) {
            result = result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(CacheScope::Private);
            stamp(&mut result.meta);
        }
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(mut prompt) = prompts::get(&request.name) else {
            let what = format!("unknown prompt {:?}: see prompts/list for those there are", cut(&request.name));
            return Err(ErrorData::invalid_params(what, None));
        };
        if modern(&cx) {
            stamp(&mut prompt.meta);
        }
        Ok(prompt.into())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // A stop goes out before anything is looked at that could fail or wait.
        if request.name == "stop" {
            stopping::at_once(&self.0, request.arguments.as_ref());
        }
        let Some(spec) = registry::find(&request.name) else {
            let listed = self.listed();
            let near = config::nearest(&request.name, listed.iter().copied());
            let hint = near.map_or("see tools/list for those there are".into(), |n| format!("did you mean {n}?"));
            return Err(ErrorData::invalid_params(format!("unknown tool {:?}: {hint}", cut(&request.name)), None));
        };
        let named = |key: &str| request.arguments.as_ref()?.get(key)?.as_str().map(str::to_owned);
        let device = ["stage", "device", "camera"].into_iter().find_map(named);
        let device = device.filter(|d| self.0.rig().is_some_and(|r| r.stage(d).is_some() || r.camera(d).is_some()));
        let first = request.request_state.is_none() && !spec.hints.read_only;
        let arguments = (!spec.hints.read_only).then(|| request.arguments.clone()).flatten();
        let (begun, caller) = (Arc::new(AtomicBool::new(false)), self.caller(&cx));
        let named = Named { caller: &caller, call: cx.id.to_string(), tool: spec.name, arguments: arguments.as_ref() };
        if let (RigPart::Live(live), "stop") = (&self.0.rig, spec.name) {
            self.0.record.stop(live, &named);
        }
        let outcome = fence(spec.name, self.outcome(spec, request, &cx, begun.clone())).await;
        if let (Err(error), RigPart::Live(live)) = (&outcome, &self.0.rig)
            && !spec.hints.read_only
            && !begun.load(Ordering::Relaxed)
        {
            self.0.record.refused(live, &named, error);
        }
        if first
            && modern(&cx)
            && self.asks_users(&cx)
            && let (Ok(answer), RigPart::Live(live)) = (&outcome, &self.0.rig)
            && let Some(question) = elicit::instead(answer, &live.handle.snapshot())
        {
            return Ok(CallToolResponse::InputRequired(question));
        }
        let mut result = self.result(spec.name, outcome, device.as_deref());
        if modern(&cx) {
            stamp(&mut result.meta);
        }
        Ok(CallToolResponse::Complete(result))
    }

    async fn on_initialized(&self, cx: NotificationContext<RoleServer>) {
        let mut present = self.0.present.clone();
        present.mark_unchanged();
        tokio::spawn(async move {
            while present.changed().await.is_ok() {
                if cx.peer.is_transport_closed() || cx.peer.notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, cx: SubscriptionContext) -> Result<(), ErrorData> {
        let mut present = self.0.present.clone();
        present.mark_unchanged();
        loop {
            tokio::select! {
                () = cx.cancelled() => return Ok(()),
                () = self.0.shutting_down.cancelled() => return Ok(()),
                changed = present.changed() => {
                    if changed.is_err() {
                        cx.cancelled().await;
                        return Ok(());
                    }
                    if cx.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_answered() {
        let outcome = fence("move_to", async { panic!("deliberate") }).await;
        let error = outcome.unwrap_err().error;
        assert_eq!((error.code, error.moved), (Code::Internal, Moved::Unknown));
        assert!(error.what.contains("move_to"));
    }

    #[test]
    fn the_instructions_are_short_and_name_tools_that_exist() {
        assert!(INSTRUCTIONS.len() < 3 * 1024);
        for name in ["describe_rig", "get_state", "check_move", "move_by", "get_job", "stop", "clear_fault"] {
            assert!(INSTRUCTIONS.contains(name) && registry::find(name).is_some(), "{name}");
        }
    }
}

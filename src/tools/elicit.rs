//! Asking a client's user for an approval, where the rig file lets the answer count as a person's (`approve_by =
//! ["elicitation"]`): in sessions in which the client can be asked at all. With handshakes the server asks while the call
//! waits; from 2026-07-28 on the question is the call's answer, and the client makes the call again with the reply.

use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, InputRequest,
    InputRequiredResult, InputResponses, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use rmcp::{Peer, RoleServer};

use super::answer::{Answer, Outcome, ToolError};
use super::approvals::reasons;
use super::call::Call;
use super::wait;
use crate::actor::{Decision, RigHandle};
use crate::model::{Approval, Caller, Code, Snapshot, Way, harmless};

/// What the form calls its one field.
const FIELD: &str = "approve";

/// Whether this client's user can be asked: it said so, and it has a session. Over HTTP there is none, so that nobody
/// could tell whose answer it is.
pub(crate) fn can_ask(cx: &RequestContext<RoleServer>, way: Way) -> bool {
    let offered = || cx.client_capabilities().and_then(|c| c.elicitation);
    // Neither named means forms: the first version of it had nothing else.
    matches!(way, Way::Stdio | Way::Relay) && offered().is_some_and(|e| e.form.is_some() || e.url.is_none())
}

/// The answer that asks, instead of one that says that its command waits for an approval.
pub(crate) fn instead(answer: &Answer, state: &Snapshot) -> Option<InputRequiredResult> {
    let id = answer.data.get("approval_id")?.as_str()?;
    let approval = state.approvals().find(|a| a.id.as_str() == id)?;
    let request = InputRequest::Elicitation(ElicitRequest::new(form(approval)?));
    let requests = [(FIELD.to_owned(), request)].into();
    Some(InputRequiredResult::new(Some(requests), Some(format!("{} {id}", approval.job))))
}

/// The call that is made again with the reply: nothing is begun a second time, whatever its state says. A reply counts
/// for what its own session has asked.
pub(crate) async fn replied(call: &Call, state: &str, replies: Option<&InputResponses>) -> Outcome {
    let live = call.live()?;
    let snapshot = live.handle.snapshot();
    let (job, id) = state.split_once(' ').unwrap_or_default();
    let own = snapshot.jobs.iter().find(|j| j.id.to_string() == job && j.caller.id == call.caller.id);
    let entry = own.and_then(|j| call.core.book.find(j.id)).filter(|e| e.tool == call.tool);
    let Some(entry) = entry else {
        let what = "This reply belongs to no question of this session; nothing was begun.";
        return Err(ToolError::new(Code::InvalidArgument, what));
    };
    let reply = replies.and_then(|r| r.get(FIELD)).and_then(|r| serde_json::from_value(r.clone()).ok());
    if let Some(yes) = reply.as_ref().and_then(said)
        && let Some(approval) = snapshot.approvals().find(|a| a.id.as_str() == id)
    {
        let mut ticket = live.handle.decide(&call.caller, &approval.id, decision(yes, &call.caller))?;
        // Decided at the rig meanwhile, or over: then its job says so.
        let _ = ticket.wait().await;
    }
    wait::resumed(call, &entry).await
}

fn decision(yes: bool, caller: &Caller) -> Decision {
    Decision { yes, by: format!("the user of {}", caller.client), reason: None, elicited: true }
}

/// Asks, and hands a yes or no on. `true` when it was decided, here or elsewhere; `false` when the client gave no
/// answer, so that somebody at the rig has to.
pub(crate) async fn ask(peer: &Peer<RoleServer>, handle: &RigHandle, caller: &Caller, approval: &Approval) -> bool {
    let Some(params) = form(approval) else { return false };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let Ok(mut asked) = peer.send_request_with_option(request, PeerRequestOptions::no_options()).await else {
        return false;
    };
    let mut changes = handle.changes();
    let over = async { changes.wait_for(|s| s.approvals().all(|a| a.id != approval.id)).await.map(|_| ()) };
    let answer = tokio::select! {
        answer = &mut asked.rx => answer,
        _ = over => {
            // Decided at the rig, or over: the question must not stand there any longer.
            let _ = asked.cancel(Some("it is decided".into())).await;
            return true;
        }
    };
    let Ok(Ok(ClientResult::ElicitResult(result))) = answer else { return false };
    let Some(yes) = said(&result) else { return false };
    match handle.decide(caller, &approval.id, decision(yes, caller)) {
        Ok(mut ticket) => ticket.wait().await.is_ok(),
        Err(_) => false,
    }
}

/// Yes only where the field says so: a client that accepts an empty form has shown it to nobody. A dialog that was
/// closed is no answer.
fn said(result: &ElicitResult) -> Option<bool> {
    let field = result.content.as_ref().and_then(|c| c.get(FIELD)).and_then(serde_json::Value::as_bool);
    match (&result.action, field) {
        (ElicitationAction::Accept, Some(yes)) => Some(yes),
        (ElicitationAction::Decline, _) => Some(false),
        _ => None,
    }
}

fn form(approval: &Approval) -> Option<ElicitRequestParams> {
    let text = format!(
        "Approve this motion or change of the lab's hardware? {}. {} Say yes only if you can see the rig, or know that it \
         is safe.",
        approval.what,
        reasons(&approval.asks)
    );
    let schema = ElicitationSchema::builder()
        .required_bool_with(FIELD, |b| b.title("Approve").description("Yes: it is carried out now. No: it is denied."))
        .build()
        .ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message: harmless(&text), requested_schema: schema })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_filled_in_yes_is_one() {
        let accept = |content| ElicitResult::new(ElicitationAction::Accept).with_content(content);
        assert_eq!(said(&accept(json!({ "approve": true }))), Some(true));
        assert_eq!(said(&accept(json!({ "approve": false }))), Some(false));
        for nothing in [json!({}), json!({ "approve": "true" }), json!({ "approve": 1 }), json!(true), json!(null)] {
            assert_eq!(said(&accept(nothing.clone())), None, "{nothing}");
        }
        assert_eq!(said(&ElicitResult::new(ElicitationAction::Accept)), None);
        assert_eq!(said(&ElicitResult::new(ElicitationAction::Decline)), Some(false));
        assert_eq!(said(&ElicitResult::new(ElicitationAction::Cancel)), None);
        let both = ElicitResult::new(ElicitationAction::Cancel).with_content(json!({ "approve": true }));
        assert_eq!(said(&both), None);
    }
}

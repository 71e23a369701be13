"""Drives a service by a client that openapi-python-client made of its OpenAPI document: python story.py URL TOKEN.

It follows a list from the recommendation to the click, a model from the refresh to the A/B test and back.
"""

import sys
import time

from client import AuthenticatedClient
from client.api.ab_tests import end_ab_test, get_ab_test, start_ab_test
from client.api.events import log_events, read_events
from client.api.jobs import get_job, start_job
from client.api.models import deploy_model, get_model, list_models, roll_back_model
from client.api.nodes import search_nodes
from client.api.recommendations import recommend
from client.models import (ABTestRequest, Event, EventBatch, EventKind, JobRequest, JobRequestKind, JobState, Problem,
                           RecommendRequest)

url, token = sys.argv[1:]
service = AuthenticatedClient(base_url=url, token=token)


def answer(response, status):
    assert response.status_code == status, f"{response.status_code}: {response.content}"
    assert response.parsed is not None, response.content
    return response.parsed


def show(node):
    """Recommends to a node, reports the list as shown and a click on its first item."""
    items = answer(recommend.sync_detailed(client=service, body=RecommendRequest(node=node, k=5)), 200)
    assert len(items.items) == 5 and items.list_
    events = [Event(id=f"{items.list_}/{n}", kind=EventKind.SHOWN, source=node, target=item.id, list_=items.list_,
                    position=n, probability=item.shown) for n, item in enumerate(items.items, 1)]
    events.append(Event(id=f"{items.list_}/click", kind=EventKind.CLICKED, source=node, target=items.items[0].id,
                        list_=items.list_))
    stored = answer(log_events.sync_detailed(client=service, body=EventBatch(events=events)), 200)
    assert stored.stored == len(events), stored
    return items


nodes = [node.id for node in answer(search_nodes.sync_detailed(client=service, limit=60), 200).nodes]
for node in nodes[:20]:
    show(node)
assert len(answer(read_events.sync_detailed(client=service, limit=1000), 200).events) == 120


def live():
    return answer(get_model.sync_detailed(client=service), 200).digest


# Refresh: the service learns from the clicks and deploys the model itself.
first = live()
refused = answer(roll_back_model.sync_detailed(client=service), 409)
assert isinstance(refused, Problem) and refused.status == 409 and refused.hint, refused
started = start_job.sync_detailed(client=service, body=JobRequest(kind=JobRequestKind.RETRAIN))
job = answer(started, 202)
assert started.headers["location"].endswith(f"/api/v1/jobs/{job.id}"), started.headers
while job.state in (JobState.QUEUED, JobState.RUNNING):
    time.sleep(0.05)
    job = answer(get_job.sync_detailed(job.id, client=service), 200)
assert job.state == JobState.DONE and job.deployed and job.serves, job
assert all(check.passed for check in job.checks), job.checks
fresh = job.model
assert fresh != first and live() == fresh, (first, fresh)
models = answer(list_models.sync_detailed(client=service), 200)
assert models.current == fresh, models
entry = next(m for m in models.models if m.digest == fresh)
assert entry.parent == first and (entry.log.showings, entry.log.clicked) == (100, 20), entry
assert show(nodes[20]).model == fresh

# Trial: half of the readers get the model that was live before.
test = answer(start_ab_test.sync_detailed(client=service, body=ABTestRequest(model=first, share=0.5)), 200)
assert (test.a, test.b) == (fresh, first), test
again = answer(start_ab_test.sync_detailed(client=service, body=ABTestRequest(model=first, share=0.25)), 409)
assert isinstance(again, Problem) and again.hint, again
shown = [show(node) for node in nodes]
assert {(a.arm, a.model) for a in shown} == {("a", fresh), ("b", first)}, shown
for _ in range(200):
    compared = answer(get_ab_test.sync_detailed(client=service), 200)
    if sum(arm.shown for arm in compared.arms) == 5 * len(nodes):
        break
    time.sleep(0.05)
assert [arm.clicked for arm in compared.arms] == [arm.sources for arm in compared.arms], compared
answer(end_ab_test.sync_detailed(client=service), 200)
assert live() == fresh

# Roll back, and deploy again.
assert answer(roll_back_model.sync_detailed(client=service), 200).digest == first
assert live() == first and show(nodes[0]).model == first
assert answer(deploy_model.sync_detailed(fresh, client=service), 200).digest == fresh
assert live() == fresh and show(nodes[0]).model == fresh
print("done")

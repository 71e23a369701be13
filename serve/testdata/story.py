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

first = answer(get_model.sync_detailed(client=service), 200).digest
body = JobRequest(kind=JobRequestKind.RETRAIN, method="naive", train_only=True)
started = start_job.sync_detailed(client=service, body=body)
job = answer(started, 202)
assert started.headers["location"].endswith(f"/api/v1/jobs/{job.id}"), started.headers
while job.state in (JobState.QUEUED, JobState.RUNNING):
    time.sleep(0.05)
    job = answer(get_job.sync_detailed(job.id, client=service), 200)
assert job.state == JobState.DONE and job.model and not job.deployed, job

test = answer(start_ab_test.sync_detailed(client=service, body=ABTestRequest(model=job.model, share=0.5)), 200)
assert (test.a, test.b) == (first, job.model), test
again = answer(start_ab_test.sync_detailed(client=service, body=ABTestRequest(model=job.model, share=0.25)), 409)
assert isinstance(again, Problem) and again.hint, again
arms = {show(node).arm for node in nodes}
assert arms == {"a", "b"}, arms
for _ in range(200):
    compared = answer(get_ab_test.sync_detailed(client=service), 200)
    if sum(arm.shown for arm in compared.arms) == 5 * len(nodes):
        break
    time.sleep(0.05)
assert [arm.clicked for arm in compared.arms] == [arm.sources for arm in compared.arms], compared
answer(end_ab_test.sync_detailed(client=service), 200)

refused = answer(roll_back_model.sync_detailed(client=service), 409)
assert isinstance(refused, Problem) and refused.status == 409 and refused.hint, refused
assert answer(deploy_model.sync_detailed(job.model, client=service), 200).digest == job.model
assert answer(list_models.sync_detailed(client=service), 200).current == job.model
assert answer(roll_back_model.sync_detailed(client=service), 200).digest == first
assert answer(get_model.sync_detailed(client=service), 200).digest == first
print("done")

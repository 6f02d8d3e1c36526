"""A model partly on QNN graphs, partly on the host: planned with reasons, prepared once, run many times.

plan = partition(export(module, inputs), Target("HTP", "SM8650"), unsupported="host", host="torch")
print(plan.table())
with Backend.open("HTP", "SM8650") as backend, Dispatcher(plan, backend) as dispatcher:
    outputs = dispatcher.run([x])
    print(dispatcher.report().table())
"""

from opdb.run.dispatch.configs import graph_of
from opdb.run.dispatch.dispatcher import Dispatcher
from opdb.run.dispatch.plan import Plan, PlanError, partition
from opdb.run.dispatch.report import Report

__all__ = ["Dispatcher", "Plan", "PlanError", "Report", "graph_of", "partition"]

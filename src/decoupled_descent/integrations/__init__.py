"""Other people's training loops: Lightning, skorch, torchmetrics, and any that has callbacks.

Each module needs its library, and is imported by its own name, such as
``decoupled_descent.integrations.lightning``.
"""

"""A recipe of a few seconds, for the tests of whole commands: 3 epochs of 4 updates."""

TOY_RECIPE = """
dataset = "bars"
[model]
layers = [5, 3]
[training]
batch_size = 500
[[phases]]
samples = 3
learning_rate = 0.03
max_epochs = 3
[monitor]
valid_samples = 3
test_every = 0
[evaluation]
samples = [1, 20]
z_samples = 500
ess_samples = 20
"""

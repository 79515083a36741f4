"""How things read, as text and as JSON, wherever they are shown: on a terminal, to an agent, to a model."""

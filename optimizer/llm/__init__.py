"""Language models as policies: what they are told, how they are asked, and what their answers mean."""

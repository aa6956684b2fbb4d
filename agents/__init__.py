"""Think: five roles, their briefs and answers, and the models behind them. They propose; nothing here measures or
decides."""

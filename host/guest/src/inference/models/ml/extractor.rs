//! `ArrayFeatureExtractor` selects columns by index. tract's own operator differs from ONNX Runtime in two
//! ways: it treats a single index as a scalar, and its output has no row dimension if the input has none.

use tract_onnx::model::ParsingContext;
use tract_onnx::pb::NodeProto;
use tract_onnx::tract_core::ops::array::Gather;
use tract_onnx::tract_hir::internal::*;

pub(super) const OPERATOR_NAME: &str = "ArrayFeatureExtractor";

pub(super) fn build(
    _context: &ParsingContext<'_>,
    _node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    Ok((expand(Extractor), Vec::new()))
}

#[derive(Clone, Debug)]
struct Extractor;

impl Expansion for Extractor {
    fn name(&self) -> StaticName {
        OPERATOR_NAME.into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        solver: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 2)?;
        check_output_arity(outputs, 1)?;
        solver.equals(&outputs[0].datum_type, &inputs[0].datum_type)?;
        solver.given_2(&inputs[0].shape, &inputs[1].shape, move |solver, rows, columns| {
            let mut shape: TVec<TDim> = rows;
            ensure!(!shape.is_empty(), "{OPERATOR_NAME} takes rows; found a number");
            if shape.len() == 1 {
                shape.insert(0, 1.to_dim());
            }
            if let Some(last) = shape.last_mut() {
                *last = columns.iter().product();
            }
            solver.equals(&outputs[0].shape, shape)
        })
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        let (mut rows, mut columns) = (inputs[0], inputs[1]);
        let rank = model.outlet_fact(rows)?.rank();
        ensure!(rank > 0, "{OPERATOR_NAME} takes rows; found a number");
        if rank == 1 {
            rows = model.wire_node(format!("{prefix}.row"), AxisOp::Add(0), &[rows])?[0];
        }
        let shape = model.outlet_fact(columns)?.shape.to_tvec();
        if shape.len() != 1 {
            let count: TDim = shape.iter().product();
            let flat = AxisOp::Reshape(0, shape, tvec!(count));
            columns = model.wire_node(format!("{prefix}.columns"), flat, &[columns])?[0];
        }
        model.wire_node(prefix, Gather::new(rank.max(2) - 1), &[rows, columns])
    }
}

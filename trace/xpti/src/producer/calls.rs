//! Driver calls.

use crate::abi::point;
use crate::channels::{Channel, Points};
use crate::framework::{Arguments, CallData, Notification, User};
use crate::input::Function;
use crate::producer::Producer;

/// A driver call that has not returned. [`Producer::call_exit`] ends it.
#[must_use = "subscribers expect the end of the call"]
#[derive(Debug)]
pub struct Call(u64);

impl Call {
    /// Returns the number of the call, which is the instance of its two notifications; 0 if no tool listens.
    pub fn id(&self) -> u64 {
        self.0
    }
}

impl Producer {
    /// Announces that the program has called a function of the driver API. `arguments` is the address that subscribers
    /// receive: that of a structure with the function's arguments, in their order.
    #[inline]
    pub fn call_enter(&self, function: Function<'_>, arguments: Arguments<'_>) -> Call {
        const POINTS: Points = Points::of(&[point::FUNCTION_BEGIN, point::FUNCTION_END]);
        let Some(_flight) = self.enter(Channel::Calls, POINTS) else {
            return Call(0);
        };
        let call = Call(self.framework.unique_id());
        self.send_call(point::FUNCTION_BEGIN, &call, function, arguments, None);
        call
    }

    /// Announces that the function returns `result` (a `CUresult`). `function` and `arguments` must be those of the call.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a call ends once")]
    pub fn call_exit(
        &self,
        call: Call,
        function: Function<'_>,
        arguments: Arguments<'_>,
        result: u32,
    ) {
        // A call that entered without listeners has no number, so its end is not announced either.
        if call.0 == 0 {
            return;
        }
        if let Some(_flight) = self.flights.enter() {
            let result = Some(&result);
            self.send_call(point::FUNCTION_END, &call, function, arguments, result);
        }
    }

    fn send_call(
        &self,
        point: u16,
        call: &Call,
        function: Function<'_>,
        arguments: Arguments<'_>,
        result: Option<&u32>,
    ) {
        let data = CallData {
            number: function.number,
            name: function.name,
            arguments,
            result,
        };
        let notification = Notification {
            point,
            parent: None,
            event: None,
            instance: call.0,
            user: User::Call(data),
        };
        self.send(Channel::Calls, &notification);
    }
}
